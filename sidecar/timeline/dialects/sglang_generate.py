"""SGLang's own `/generate` (0.5.23), which LMDeploy serves in the same format (0.18, `openai/endpoints/generate.py`).

It knows that every event has the whole text so far (LMDeploy: only the new text) and a `meta_info` with the counts so
far. So `completion_tokens` decides whether an event is output, not its text: the text does not change if a token
detokenises to nothing. The last event of a choice has a `finish_reason`, an object. Of `meta_info` only the fields that `sidecar/engines/sglang.py` reads are handed on, and only
with the finish. With several prompts or samples, events state their `index`. It refuses to read logprobs and hidden
states, which may be long.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import SEVERAL, count, decode, event_of, index_of, states, strange
from sidecar.timeline.events import ERROR, Dialect, StreamEvent, Usage, together
from sidecar.timeline.finish import denies, finish_of


SGLANG_TIMES = ("queue_time", "forward_entry_time", "prefill_finished_time", "num_retractions")


class _Finish(msgspec.Struct, frozen=True):
    type: Any = None
    status_code: Any = None


class _Meta(msgspec.Struct, frozen=True):
    finish_reason: _Finish | str | None = None
    prompt_tokens: Any = None
    cached_tokens: Any = None
    completion_tokens: Any = None
    reasoning_tokens: Any = None
    queue_time: Any = None
    forward_entry_time: Any = None
    prefill_finished_time: Any = None
    num_retractions: Any = None


class _Event(msgspec.Struct, frozen=True):
    index: Any = 0
    text: Any = None
    output_ids: Any = None
    meta_info: _Meta | None = None
    error: Any = None


class SGLangGenerate(Dialect):
    name = "sglang_generate"
    decoder = msgspec.json.Decoder(_Event)
    decoder_of_several = msgspec.json.Decoder(list[_Event])

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:  # noqa: ARG002  the interface
        said = decode(self.decoder, data)
        return _stream_event(said) if said.meta_info or said.text or said.output_ids else strange(data)

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole answer, a list of them (one per prompt or sample), or an error object. Raises UnreadableEvent."""
        if body.lstrip()[:1] != SEVERAL:
            return self.read_event(b"", body)
        answers = [_stream_event(each) for each in decode(self.decoder_of_several, body)]
        return answers[0] if len(answers) == 1 else together(answers)


def _stream_event(said: _Event) -> StreamEvent:
    if states(said.error):
        return ERROR
    meta = said.meta_info
    if meta is None:
        return event_of([index_of(said.index)] if said.text or said.output_ids else [], [])
    index = index_of(said.index)
    generated = count(meta.completion_tokens)
    outputs = bool(said.text or said.output_ids) if generated is None else generated > 0
    finish = meta.finish_reason
    if not finish:
        return event_of([index] if outputs else [], [])
    if denies(finish.type if isinstance(finish, _Finish) else finish):
        return ERROR
    times = {name: value for name in SGLANG_TIMES if (value := getattr(meta, name)) is not None}
    return StreamEvent(
        output=(index,) if outputs else (),
        finished=(index,),
        finish=finish_of(finish.type if isinstance(finish, _Finish) else finish),
        wordless=outputs and not said.text and not said.output_ids,
        usage=Usage(count(meta.prompt_tokens), count(meta.cached_tokens), generated, count(meta.reasoning_tokens)),
        extras={"meta_info": times} if times else None,
    )
