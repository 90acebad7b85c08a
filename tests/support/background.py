"""An event loop in a thread of its own: its tasks go on while the scenario waits for something else."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar


T = TypeVar("T")
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Background:
    """The loop in the other thread. Both methods are called from outside that thread."""

    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine there; returns its result or raises its exception."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)

    @contextmanager
    def entered(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
        """The result of `make`, made and entered in the loop's thread, for the length of a `with` block."""

        async def enter() -> tuple[AbstractAsyncContextManager[T], T]:
            manager = make()
            return manager, await manager.__aenter__()

        manager, value = self.run(enter())
        try:
            yield value
        finally:
            self.run(manager.__aexit__(None, None, None))

    @contextmanager
    def going_on(self, work: Coroutine[Any, Any, object]) -> Iterator[None]:
        """The coroutine runs for the length of a `with` block, then is cancelled. Raises its own exception, if any."""

        async def start() -> asyncio.Task[object]:
            return asyncio.create_task(work)

        async def end(task: asyncio.Task[object]) -> None:
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
                raise ended

        task = self.run(start())
        try:
            yield
        finally:
            self.run(end(task))


@contextmanager
def background() -> Iterator[Background]:
    """A loop for the length of a `with` block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield Background(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()
