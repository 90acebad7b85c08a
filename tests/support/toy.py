"""The facts of an engine that does not exist: `tests/engines/test_kinds.py` puts this file into engines/."""

from collections.abc import Mapping

from sidecar.engines.durations import MILLISECONDS, seconds_of
from sidecar.engines.kind import Channel, EngineKind, Wire
from sidecar.engines.probe.replies import VERSION_PATH, Answers, Identity, text_at
from sidecar.engines.probe.state_names import Name, StateNames
from sidecar.ledger.report import EngineReport
from sidecar.timeline.events import Dialect
from tests.support.toy_generate import ToyGenerate


class Toy(EngineKind):
    """The tenth engine."""

    name = "toy"
    title = "Toy Box"
    channels = (
        Channel(
            name="toy_times",
            source="`toy_times` in the last event of `/toy/generate`",
            version="1.0",
            flags="`--tell-times`",
            exact="queue, prefill",
            missing="everything else",
            follows="`toy.c`",
        ),
    )
    owned_by = "toymaker"
    asks = (VERSION_PATH,)
    state = StateNames(waiting=Name("toy_waiting"), running=Name("toy_running"))
    paths: Mapping[bytes, Dialect] = {b"/toy/generate": ToyGenerate()}

    def describes(self, answers: Answers) -> Identity:
        """The version is all that the toy states."""
        return Identity(text_at(answers, VERSION_PATH, "version"))

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """The times of the last event."""
        times = extras.get("toy_times")
        if not isinstance(times, Mapping):
            return None
        queued, read = (seconds_of(times.get(name), MILLISECONDS) for name in ("queued", "read"))
        return EngineReport(queue_seconds=queued, prefill_seconds=read)
