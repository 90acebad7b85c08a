"""llama.cpp's own `/completion`, `/completions` and `/infill` (b11434, `tools/server/server-task.cpp`).

It knows that an event with content is output. An event with empty content is output too, unless it is the last (`stop:
true`) or states progress during prefill (`prompt_progress`). The last event states counts and `timings`. One name
misleads: `tokens_cached` is the number of tokens that the slot's cache holds after the answer, prompt and output
together; the tokens taken from the cache are `timings.cache_n`. There is no `[DONE]`. It refuses to count tokens: an
event is not a token; and to read durations: `sidecar/engines/llama_cpp.py` does.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import SEVERAL, Extras, count, decode, event_of, index_of, states, strange
from sidecar.timeline.events import ERROR, NO_USAGE, Dialect, StreamEvent, Usage, together
from sidecar.timeline.finish import finish_of


class _Event(Extras, frozen=True):
    index: Any = 0
    content: Any = None
    stop: Any = None
    stop_type: Any = None
    tokens_predicted: Any = None
    tokens_evaluated: Any = None
    error: Any = None


class LlamaCompletion(Dialect):
    name = "llama_completion"
    decoder = msgspec.json.Decoder(_Event)
    decoder_of_several = msgspec.json.Decoder(list[_Event])

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:  # noqa: ARG002  the interface
        said = decode(self.decoder, data)
        if said.stop is True or said.error or said.timings is not None or said.prompt_progress is not None:
            return _stream_event(said, outputs=bool(said.content) and said.prompt_progress is None)
        return event_of([index_of(said.index)], []) if isinstance(said.content, str) else strange(data)

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole answer, a list of them (one per prompt), or an error object. Raises UnreadableEvent."""
        if body.lstrip()[:1] == SEVERAL:
            answers = [_stream_event(each, outputs=True) for each in decode(self.decoder_of_several, body)]
            return answers[0] if len(answers) == 1 else together(answers)
        answer = decode(self.decoder, body)
        if answer.content is None and strange(body).error:
            return ERROR
        return _stream_event(answer, outputs=isinstance(answer.content, str))


def _stream_event(said: _Event, *, outputs: bool) -> StreamEvent:
    if states(said.error):
        return ERROR
    index = index_of(said.index)
    stopped = said.stop is True
    usage = usage_of_timings(said.timings)
    if stopped:
        prompt, completion = count(said.tokens_evaluated), count(said.tokens_predicted)
        if prompt is not None or completion is not None:
            usage = Usage(prompt, None if usage is None else usage.cached_tokens, completion)
    return StreamEvent(
        output=(index,) if outputs else (),
        finished=(index,) if stopped else (),
        finish=finish_of(said.stop_type) if stopped else None,
        wordless=stopped and outputs and not said.content,
        usage=usage,
        extras=said.found(),
        done=stopped and index == 0,
    )


def usage_of_timings(timings: object) -> Usage | None:
    """The counts in `timings`, which is in every answer's last event; None if there is none (older builds, odd values).

    `cache_n` tokens came from the slot's cache, `prompt_n` were processed, `predicted_n` counts all generated tokens:
    the counts of a usage chunk, which need not be asked for.
    """
    if not isinstance(timings, dict):
        return None
    cached, processed = count(timings.get("cache_n")), count(timings.get("prompt_n"))
    usage = Usage(
        # Without cache_n (older builds) the length of the prompt is unknown: prompt_n leaves out the cached part.
        prompt_tokens=None if cached is None or processed is None else cached + processed,
        cached_tokens=cached,
        completion_tokens=count(timings.get("predicted_n")),
    )
    return None if usage == NO_USAGE else usage
