"""One short history for each function of the compiled modules that it calls, in which one call of this function raises: a line each.

It runs in the copy of the package that `tripped.py` writes, and states nothing itself: the lines of the two builds are compared
(`test_faults.py`). A line names the function, the call, what came out of the relay as uvloop would see it, and the digest of all that
was written: the clients' bytes, the page of metrics, the log lines and the diagnoses.
Run: `python -m tests.histories.faults SEED REQUESTS [FUNCTION]`; with a function its history is written out.
"""

import hashlib
import sys
from collections.abc import Callable
from typing import Any

from sidecar import trips  # type: ignore[attr-defined]  # the copy's own
from tests.histories.history import WALL_CLOCK, Told
from tests.support.memory import Socket


class Story(Told):
    """A history that goes on when something has come out of the relay, as an event loop does."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.came_out: list[str] = []
        self.clients: list[Socket] = []

    def client(self) -> Socket:
        self.clients.append(super().client())
        return self.clients[-1]

    def contained(self, step: Callable[..., Any], *told: object) -> bool:
        """Take a step; False if it raised."""
        try:
            step(*told)
        except Exception as error:  # noqa: BLE001  whatever it is, both builds must let it out
            self.came_out.append(type(error).__name__)
            return False
        return True

    def turn(self) -> bool:
        due, self._next_turn[:] = self._next_turn[:], []
        for work in due:
            self.contained(work)
        return bool(due)

    def _pass_time(self) -> None:
        self.contained(super()._pass_time)
        self.running = [each for each in self.running if not (each.ended or each.client.lost)]

    def _ask(self) -> None:
        if not self.contained(super()._ask) and self.clients and not self.clients[-1].lost:
            self.contained(self.clients[-1].lose)

    def _go_on(self, one: Any) -> None:
        if not self.contained(super()._go_on, one):
            for socket in (one.engine, one.client):
                if not socket.lost:
                    self.contained(socket.lose)
            one.ended = True

    def _report(self) -> None:
        self.contained(super()._report)

    def _reload(self) -> None:
        self.contained(super()._reload)

    def _restart(self) -> None:
        self.contained(super()._restart)

    def _scrape(self) -> None:
        self.contained(super()._scrape)

    def written(self) -> bytes:
        """All that came to clients, and all that was logged and shown."""
        self.contained(self.logs.close)
        return b"\n".join([*(bytes(each.taken) for each in self.clients), WALL_CLOCK.sub(b"", self.text.getvalue())])


def played(seed: int, requests: int, function: str, call: int) -> Story:
    """The history in which this call of the function raises; 0: none does."""
    story = Story(seed)
    trips.calls.clear()
    trips.told, trips.calls_left = function, call
    story.contained(story.play, requests)
    trips.told = ""
    return story


def main() -> int:
    seed, requests, only = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    played(seed, requests, "", 0)
    calls = dict(trips.calls)
    for function, count in sorted(calls.items()):
        if only and function != only[0]:
            continue
        call = (count + 1) // 2
        story = played(seed, requests, function, call)
        text = story.written()
        digest = hashlib.sha256(text).hexdigest()[:16]
        line = f"{function}, call {call} of {count}: {','.join(story.came_out) or '-'} {len(text)} {digest}\n"
        sys.stdout.buffer.write(line.encode() + (text if only else b""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
