"""The table of docs/errors.md: every answer that the sidecar gives in the engine's place, from `sidecar/proxy/errors.py`."""

from sidecar.proxy.errors import ERROR_HEADER, Failure
from tools.markdown import Block, table


HEAD = (f"`{ERROR_HEADER.decode()}`", "status", "outcome", "message")


def block() -> Block:
    """One row per failure, in the order of the code."""
    return Block("# Errors", table(HEAD, map(_cells, Failure)))


def _cells(failure: Failure) -> tuple[str, ...]:
    answer = failure.value
    seconds = "from the drain of the queue" if answer.by_drain else answer.retry_after_seconds
    retry = f" `Retry-After`: {seconds}." if seconds is not None else ""
    return f"`{answer.reason}`", str(answer.status), f"`{answer.outcome.value}`", answer.message + retry
