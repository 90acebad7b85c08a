"""The dialect of a path, with nothing added and nothing excluded."""

from collections.abc import Mapping

from sidecar.timeline.apis import Apis
from sidecar.timeline.events import Dialect


_APIS = Apis()


def dialect_for(target: bytes, own: Mapping[bytes, Dialect] = {}) -> Dialect | None:
    """None for a path that is no inference. `own`: as in `Apis.at`."""
    api = _APIS.at(target, own)
    return None if api is None else api.dialect
