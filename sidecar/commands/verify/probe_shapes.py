"""The twelve probes of `sidecar verify`: their names, their shapes, and the body of each. Pure.

All are streams of one chat API, of short and long prompts, one token and sixty-four; one client takes compressed answers.
Each prompt begins with words of its own, so that no prefix cache makes the second address faster than the first. Temperature 0, and no
option that one engine alone has.
"""

import json
from typing import NamedTuple


CHAT = "/v1/chat/completions"
MOST_OUTPUT_TOKENS = 64
"""Most output tokens of one probe: the whole run asks for no more than a few chat answers."""
_SHORT_WORDS, _MEDIUM_WORDS, _LONG_WORDS = 8, 250, 1200
"""Words of filler, about as many tokens. A long prompt's prefill stands out, and fits a context of 2,048 tokens."""
_FILLER = ("one", "word", "after", "the", "other")
_TASK = "Write the numbers from one to a hundred in words, separated by commas."


class Probe(NamedTuple):
    name: str
    words: int
    max_tokens: int
    gzip: bool = False
    """The client takes compressed answers, as most libraries do."""

    def prompt(self, run: str, place: str) -> str:
        """`run`: words that only this run has; `place`: the address that it goes to."""
        filler = " ".join(_FILLER[number % len(_FILLER)] for number in range(self.words))
        return f"{run} {self.name} {place}. {filler}. {_TASK}"

    def body(self, run: str, place: str, model: str) -> bytes:
        """The request, as JSON."""
        asked = {"model": model, "max_tokens": self.max_tokens, "temperature": 0, "stream": True}
        asked |= {"messages": [{"role": "user", "content": self.prompt(run, place)}]}
        return json.dumps(asked | {"stream_options": {"include_usage": True}}).encode()


WARM_UP_PROBE = "chat-warm-up"
"""The first one: it opens the connections, and an engine may compile something for it. It is shown, and left out of all comparisons."""
VERIFY_PROBES = (
    Probe(WARM_UP_PROBE, _SHORT_WORDS, 16),
    Probe("chat-short-1", _SHORT_WORDS, 1),
    Probe("chat-short-8", _SHORT_WORDS, 8),
    Probe("chat-short-16", _SHORT_WORDS, 16),
    Probe("chat-short-32", _SHORT_WORDS, 32),
    Probe("chat-short-64", _SHORT_WORDS, 64),
    Probe("chat-medium-16", _MEDIUM_WORDS, 16),
    Probe("chat-medium-64", _MEDIUM_WORDS, 64),
    Probe("chat-long-1", _LONG_WORDS, 1),
    Probe("chat-long-32", _LONG_WORDS, 32),
    Probe("chat-gzip-64", _SHORT_WORDS, 64, gzip=True),
    Probe("chat-last-64", _SHORT_WORDS, 64),
)


def key_variable(place: str) -> str:
    """The variable that holds the API key of the `engine` or of the `entry`, where no file is named."""
    return f"SIDECAR_VERIFY_{place.upper()}_API_KEY"
