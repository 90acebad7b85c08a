"""The twenty probes of `sidecar verify`: their names, their shapes, and the body of each. Pure.

The shapes are those whose times differ in what they are made of: short and long prompts, one token and sixty-four, streamed and whole,
chat and completion, a prompt that the engine has seen before, a client that takes compressed answers, one that asks for no usage.
Each prompt begins with words of its own, so that no prefix cache makes the second address faster than the first. Temperature 0, and no
option that one engine alone has.
"""

import json
from typing import NamedTuple


MOST_OUTPUT_TOKENS = 64
"""Most output tokens of one probe: the whole run asks for no more than a few chat answers."""
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_SHORT_WORDS, _MEDIUM_WORDS, _LONG_WORDS = 8, 250, 1200
"""Words of filler, about as many tokens. A long prompt's prefill stands out, and fits a context of 2,048 tokens."""
_FILLER = ("one", "word", "after", "the", "other")
_TASK = "Write the numbers from one to a hundred in words, separated by commas."


class Probe(NamedTuple):
    name: str
    path: str
    words: int
    max_tokens: int
    stream: bool = True
    usage: bool = True
    """A stream is asked to state its usage."""
    gzip: bool = False
    """The client takes compressed answers, as most libraries do."""
    repeats: str = ""
    """The probe whose very prompt it sends again."""

    def prompt(self, run: str, place: str) -> str:
        """`run`: words that only this run has; `place`: the address that it goes to."""
        filler = " ".join(_FILLER[number % len(_FILLER)] for number in range(self.words))
        return f"{run} {self.repeats or self.name} {place}. {filler}. {_TASK}"

    def body(self, run: str, place: str, model: str) -> bytes:
        """The request, as JSON."""
        prompt = self.prompt(run, place)
        asked: dict[str, object] = {"model": model, "max_tokens": self.max_tokens, "temperature": 0}
        asked |= {"messages": [{"role": "user", "content": prompt}]} if self.path == CHAT else {"prompt": prompt}
        asked |= {"stream": True} if self.stream else {}
        asked |= {"stream_options": {"include_usage": True}} if self.stream and self.usage else {}
        return json.dumps(asked).encode()


WARM_UP_PROBE = "chat-warm-up"
"""The first one: it opens the connections, and an engine may compile something for it. It is shown, and left out of all comparisons."""
VERIFY_PROBES = (
    Probe(WARM_UP_PROBE, CHAT, _SHORT_WORDS, 16),
    Probe("chat-short-1", CHAT, _SHORT_WORDS, 1),
    Probe("chat-short-8", CHAT, _SHORT_WORDS, 8),
    Probe("chat-short-16", CHAT, _SHORT_WORDS, 16),
    Probe("chat-short-32", CHAT, _SHORT_WORDS, 32),
    Probe("chat-short-64", CHAT, _SHORT_WORDS, 64),
    Probe("chat-medium-16", CHAT, _MEDIUM_WORDS, 16),
    Probe("chat-medium-64", CHAT, _MEDIUM_WORDS, 64),
    Probe("chat-long-1", CHAT, _LONG_WORDS, 1),
    Probe("chat-long-32", CHAT, _LONG_WORDS, 32),
    Probe("chat-long-again-32", CHAT, _LONG_WORDS, 32, repeats="chat-long-32"),
    Probe("chat-no-usage-32", CHAT, _SHORT_WORDS, 32, usage=False),
    Probe("chat-gzip-64", CHAT, _SHORT_WORDS, 64, gzip=True),
    Probe("chat-whole-1", CHAT, _SHORT_WORDS, 1, stream=False),
    Probe("chat-whole-64", CHAT, _SHORT_WORDS, 64, stream=False),
    Probe("completion-short-16", COMPLETIONS, _SHORT_WORDS, 16),
    Probe("completion-short-64", COMPLETIONS, _SHORT_WORDS, 64),
    Probe("completion-long-32", COMPLETIONS, _LONG_WORDS, 32),
    Probe("completion-whole-32", COMPLETIONS, _SHORT_WORDS, 32, stream=False),
    Probe("chat-last-64", CHAT, _SHORT_WORDS, 64),
)


def key_variable(place: str) -> str:
    """The variable that holds the API key of the `engine` or of the `entry`, where no file is named."""
    return f"SIDECAR_VERIFY_{place.upper()}_API_KEY"
