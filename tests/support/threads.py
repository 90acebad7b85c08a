"""The threads of `observe/beside.py` without a thread and without a loop: what they do, and when, is the test's to say."""

from collections.abc import Callable

from sidecar.observe.beside import Threads


class HeldThreads(Threads):
    """Work that has been started goes on in `work`, one piece after the other, in the order of its start."""

    def __init__(self, started: list[Callable[[], None]] | None = None) -> None:
        """`started`: takes the work that has been started and has not ended; what calls it ends it."""
        super().__init__()
        self.now = 0.0
        self.started = [] if started is None else started
        self._due: list[tuple[float, Callable[[], None]]] = []

    def start(self, work: Callable[[], bytes | None], done: Callable[[bytes | None], None]) -> None:
        self.started.append(lambda: done(work()))

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._due.append((self.now + seconds, call))

    def work(self) -> None:
        """The work that was started first ends now."""
        self.started.pop(0)()

    def pass_seconds(self, seconds: float) -> None:
        """The clock goes on, and calls what is due, in order."""
        self.now += seconds
        due, self._due = self._due, []
        for at, call in due:
            if at <= self.now:
                call()
            else:
                self._due.append((at, call))
