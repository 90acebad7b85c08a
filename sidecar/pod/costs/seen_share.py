"""The share of the engine's running requests that the sidecar has sent it. Pure.

Clients that bypass the sidecar make the engine's steps wider, and nothing here would tell by what. It knows numbers of
requests, second by second. It refuses to judge by an engine's number that may be old: while no request of the sidecar is
in flight, some engines (SGLang 0.5) state the last one for 30 s.
"""

WEIGHT = 1 / 30
"""Weight of a new second in the means: the engine's own number is some seconds old."""
FEWEST_RUNNING = 1.0


class SeenShare:
    """The share over the last half minute or so."""

    def __init__(self) -> None:
        self._running = self._in_flight = 0.0
        """Means of the engine's own number and of the sidecar's."""
        self.several = 0
        """Number of requests in the engine that it may run as several: they have several choices or prompts, or an unknown number."""

    def tick(self, in_flight: int, running: float | None) -> None:
        """Call it about once a second. `in_flight`: requests of the sidecar in the engine; `running`: the engine's own
        number, None if it states none.
        """
        if running is None:
            self._running = self._in_flight = 0.0
        elif in_flight and not self.several:
            self._running += (running - self._running) * WEIGHT
            self._in_flight += (in_flight - self._in_flight) * WEIGHT

    @property
    def value(self) -> float:
        """0 to 1; 1 where nothing tells it."""
        return min(1.0, self._in_flight / self._running) if self._running >= FEWEST_RUNNING else 1.0
