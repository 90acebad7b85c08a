"""Token counts in llama.cpp's `timings` object, which is in every answer's last event (b11434, `server-task.cpp`).

It knows that the prompt is `cache_n` + `prompt_n` (tokens from the slot's cache, and processed tokens) and that
`predicted_n` counts all generated tokens. These are the counts of a usage chunk, but need not be asked for. It refuses
to read the durations in the same object: `sidecar/engines/llama_cpp.py` does.
"""

from sidecar.timeline.dialects.json_fields import count
from sidecar.timeline.events import Usage


_NO_USAGE = Usage()


def usage_of_timings(timings: object) -> Usage | None:
    """The counts in `timings`; None if there is none (older builds, odd values)."""
    if not isinstance(timings, dict):
        return None
    cached, processed = count(timings.get("cache_n")), count(timings.get("prompt_n"))
    usage = Usage(
        # Without cache_n (older builds) the length of the prompt is unknown: prompt_n leaves out the cached part.
        prompt_tokens=None if cached is None or processed is None else cached + processed,
        cached_tokens=cached,
        completion_tokens=count(timings.get("predicted_n")),
    )
    return None if usage == _NO_USAGE else usage
