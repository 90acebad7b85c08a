"""The token counts in llama.cpp's `timings` object, which stands in every answer's last event (b11434, `server-task.cpp`).

It knows that the prompt is `cache_n` + `prompt_n` (taken from the slot's cache, and processed) and that `predicted_n`
counts all generated tokens: the counts that a usage chunk would state, without asking for one. It refuses to read the
durations beside them: `sidecar/engines/llama_cpp.py` does.
"""

from sidecar.timeline.dialects.json_fields import count
from sidecar.timeline.events import Usage


_NO_USAGE = Usage()


def usage_of_timings(timings: object) -> Usage | None:
    """The counts that stand there; None where none does (older builds, odd values)."""
    if not isinstance(timings, dict):
        return None
    cached, processed = count(timings.get("cache_n")), count(timings.get("prompt_n"))
    usage = Usage(
        # Without cache_n (before it was added) nobody knows how long the prompt was: prompt_n alone is what was not cached.
        prompt_tokens=None if cached is None or processed is None else cached + processed,
        cached_tokens=cached,
        completion_tokens=count(timings.get("predicted_n")),
    )
    return None if usage == _NO_USAGE else usage
