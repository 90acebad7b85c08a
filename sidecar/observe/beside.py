"""Work that cannot be done in steps, in a thread of its own, while the loop goes on. It must hold no lock of the interpreter for long."""

from collections.abc import Callable, Iterator
from threading import Thread


def in_a_thread(work: Callable[[], bool]) -> Iterator[bool | None]:
    """None while it lasts, then its result; False if it raised."""
    found: list[bool] = []
    thread = Thread(target=lambda: found.append(work()), name="beside", daemon=True)
    thread.start()
    while thread.is_alive():
        yield None
    yield bool(found and found[0])
