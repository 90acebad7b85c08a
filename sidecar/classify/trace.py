"""Whether the client's own trace was sampled, from its `traceparent` (W3C Trace Context, level 2, section 3.2). Pure.

Only a trace id of a trace that its owner keeps is worth an exemplar; everything else is None. The header itself passes unchanged.
"""

import re
from collections.abc import Iterable


_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-|\Z)")
_SAMPLED = 0x01


def sampled_trace_id(fields: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The 32 hex digits of a sampled trace, or None: no header, more than one, malformed, or not sampled."""
    values = [value.strip() for name, value in fields if len(name) == 11 and name.lower() == b"traceparent"]
    if len(values) != 1:
        return None
    found = _TRACEPARENT.match(values[0])
    if found is None or not int(found[2], 16) & _SAMPLED:
        return None
    return found[1].decode()
