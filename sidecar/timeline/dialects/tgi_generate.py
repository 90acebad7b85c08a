"""Hugging Face TGI's own `/generate_stream`, `/generate` and `/` (3.3.6, `router/src/server.rs`).

It knows that each event holds one token, special ones included, and that the last also holds `generated_text` (there is
no `[DONE]`). If the client asked for `details`, they state the counts. A failure is an event with `error`. `/` answers
like one of the other two, depending on the request's `stream`; a whole answer of `/` is wrapped in a list. It refuses
to read the headers in which a whole answer states its times: `sidecar/engines/tgi.py` does.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import SEVERAL, count, decode, states, strange
from sidecar.timeline.events import ERROR, NOTHING, OUTPUT, Dialect, StreamEvent, Usage, together
from sidecar.timeline.finish import finish_of


class _Details(msgspec.Struct, frozen=True):
    generated_tokens: Any = None
    input_length: Any = None
    finish_reason: Any = None


class _Event(msgspec.Struct, frozen=True):
    token: Any = None
    generated_text: Any = None
    details: _Details | None = None
    error: Any = None


class TGIGenerate(Dialect):
    name = "tgi_generate"
    decoder = msgspec.json.Decoder(_Event)
    decoder_of_several = msgspec.json.Decoder(list[_Event])

    def __init__(self, *, streams_unsaid: bool = False) -> None:
        """`streams_unsaid`: on this path the answer is a stream, whatever the request's body says or leaves out."""
        self.streams_unsaid = streams_unsaid

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:  # noqa: ARG002  the interface
        said = decode(self.decoder, data)
        if states(said.error):
            return ERROR
        outputs = isinstance(said.token, dict)
        if not isinstance(said.generated_text, str):
            return OUTPUT if outputs else strange(data)
        return _last(said, outputs=outputs)._replace(done=True)

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole answer, alone or as the only one of a list, or an error object. Raises UnreadableEvent."""
        if body.lstrip()[:1] == SEVERAL:
            answers = [_whole(each) for each in decode(self.decoder_of_several, body)]
            return answers[0] if len(answers) == 1 else together(answers)
        answer = decode(self.decoder, body)
        return _whole(answer) if isinstance(answer.generated_text, str) else strange(body)


def _whole(answer: _Event) -> StreamEvent:
    if states(answer.error):
        return ERROR
    return _last(answer, outputs=True) if isinstance(answer.generated_text, str) else NOTHING


def _last(said: _Event, *, outputs: bool) -> StreamEvent:
    details = said.details
    usage, finish = None, None
    if details is not None:
        finish = finish_of(details.finish_reason)
        usage = Usage(prompt_tokens=count(details.input_length), completion_tokens=count(details.generated_tokens))
    wordless = outputs and not said.generated_text
    return StreamEvent(output=(0,) if outputs else (), finished=(0,), finish=finish, wordless=wordless, usage=usage)
