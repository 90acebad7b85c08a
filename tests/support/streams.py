"""The streams in tests/streams, and the one-line notation of their events in `readings.txt` beside them."""

import pathlib
from collections.abc import Iterable, Iterator

from sidecar.timeline.events import NOTHING, Dialect, StreamEvent, Usage
from sidecar.timeline.reader import EventReader
from tests.support.apis import dialect_for


STREAMS = pathlib.Path(__file__).parent.parent / "streams"

_PATHS = {
    "chat": b"/v1/chat/completions",
    "completions": b"/v1/completions",
    "responses": b"/v1/responses",
    "messages": b"/v1/messages",
    "api": b"/api/chat",
    "completion": b"/completion",
    "generate": b"/generate",
    "v2": b"/v2/models/ensemble/generate_stream",
}


def streams() -> list[pathlib.Path]:
    """Every stream in the folder, recorded or composed."""
    return sorted((*STREAMS.glob("*.sse"), *STREAMS.glob("*.ndjson")))


def readings() -> dict[str, list[str]]:
    """A stream's name to its events, one line each, of each stream whose events are written down."""
    stories = (STREAMS / "readings.txt").read_text().split("== ")[1:]
    return {name: lines for name, *lines in (story.rstrip("\n").splitlines() for story in stories)}


def dialect_of(stream: pathlib.Path) -> Dialect:
    """The dialect that a file's name states: `ENGINE-API-WHAT`, by the first word that is an API's."""
    api = next(word for word in stream.stem.split("-") if word in _PATHS)
    dialect = dialect_for(_PATHS[api])
    assert dialect is not None
    return dialect


def reader_of(stream: pathlib.Path) -> EventReader:
    """A reader of the framing that a file's extension states."""
    return EventReader(dialect_of(stream), lines=stream.suffix == ".ndjson")


def written(stream_events: Iterable[StreamEvent]) -> list[str]:
    """Stream events in the notation of `readings.txt`, one line each; a question mark is an unstated count."""
    return [_line(stream_event) for stream_event in stream_events]


def _line(stream_event: StreamEvent) -> str:
    return " ".join(_words(stream_event)) or "nothing"


def _words(stream_event: StreamEvent) -> Iterator[str]:
    if stream_event == NOTHING:
        return
    if stream_event.output:
        yield "output=" + ",".join(map(str, stream_event.output))
    if stream_event.finished:
        yield "finished=" + ",".join(map(str, stream_event.finished))
    if stream_event.finish is not None:
        yield f"finish={stream_event.finish}"
    if stream_event.wordless:
        yield "wordless"
    if stream_event.usage is not None:
        yield _usage(stream_event.usage)
    yield from (
        word for word, is_so in (("bare", stream_event.bare_usage), ("null_usage", stream_event.null_usage)) if is_so
    )
    if stream_event.extras is not None:
        yield f"extras({','.join(sorted(stream_event.extras))})"
    yield from (word for word, is_so in (("error", stream_event.error), ("done", stream_event.done)) if is_so)


def _usage(usage: Usage) -> str:
    counts = {
        "prompt": usage.prompt_tokens,
        "cached": usage.cached_tokens,
        "completion": usage.completion_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    return f"usage({' '.join(f'{name}={_stated(count)}' for name, count in counts.items())})"


def _stated(count: int | None) -> str:
    return "?" if count is None else str(count)
