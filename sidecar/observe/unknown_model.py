"""A request for a model that is none of the known names: its answer may prove which model served it, or that the engine refuses such names.

vLLM, LMDeploy and OpenAI's own servers refuse with status 404 and `The model NAME does not exist`, Ollama with `model NAME not found`. Much of a
refusal may be the client's own text, so the sentence has to be the engine's: it begins the message, or a code beside it says the same. A
path that is not there has status 404 too.

It knows one request and its answer; which names count is decided in `engines/names.py`.
"""

import re
from typing import Any

import msgspec

from sidecar.engines.engine import Engine
from sidecar.timeline.events import UNREADABLE


REFUSES_MODEL = 404
LOOKED_AT_BYTES = 4096
"""The longest refusal that is read."""
_SENTENCE = re.compile(r"(?:the )?model [`'\"](.+?)[`'\"] (?:does not exist|not found)", re.IGNORECASE)


class _Error(msgspec.Struct, frozen=True):
    message: Any = None
    code: Any = None
    param: Any = None


class _Refusal(msgspec.Struct, frozen=True):
    error: _Error | str | None = None
    message: Any = None


_REFUSAL = msgspec.json.Decoder(_Refusal)


class UnknownModel:
    """The model that one request asked for, and the beginning of a refusal of it."""

    def __init__(self, asked: str) -> None:
        self._asked = asked
        self._said = bytearray()

    def data(self, at: float, data: bytes) -> None:  # noqa: ARG002  the hook's shape
        """Take in bytes of a refusal, which have been written to the client."""
        room = LOOKED_AT_BYTES + 1 - len(self._said)
        if room > 0:
            self._said += data[:room]

    def ended(self, engine: Engine, answered: str | None) -> None:
        """The answer is over. `answered`: the model that it states, if it ended well."""
        if answered is not None:
            engine.answered(self._asked, answered)
        elif self._said and is_refusal(bytes(self._said), self._asked):
            engine.refused_model()


def is_refusal(body: bytes, asked: str) -> bool:
    """Whether the answer says that this model is not there. False for all that is no JSON of the known forms."""
    try:
        said = _REFUSAL.decode(body)
    except UNREADABLE:
        return False
    error = said.error if isinstance(said.error, _Error) else _Error(said.error or said.message)
    if error.code == "model_not_found" or error.param == "model":
        return True
    sentence = _SENTENCE.match(error.message) if isinstance(error.message, str) else None
    return sentence is not None and sentence[1] == asked
