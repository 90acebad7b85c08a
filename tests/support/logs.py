"""Logs that a test reads back, and accounts of requests to log."""

import io
import json

from sidecar.config.schema import LogConfig
from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.logs.setup import Logs
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.support.configs import section_of


CANARY = "sk-CANARY"
"""A secret that must not be in any line."""


class Tape:
    """Logs with a clock that stands still until moved, and the lines that were written."""

    def __init__(self, **config: object) -> None:
        self.now = 100.0
        self.file = io.BytesIO()
        self.logs = Logs.set_up(section_of(LogConfig, {"format": "json", **config}), self.file, lambda: self.now)

    def lines(self) -> list[dict[str, object]]:
        assert self.logs.flush()
        return [json.loads(line) for line in self.file.getvalue().splitlines()]


def account(outcome: Outcome = Outcome.OK, **others: object) -> Account:
    values: dict[str, object] = {
        "labels": RequestLabels("m", "chat", "0-512"),
        "streaming": True,
        "outcome": outcome,
        "marks": Marks(accepted_at=1000.0, received_at=1000.25),
        "ledger": None,
        **others,
    }
    return Account(**values)  # type: ignore[arg-type]  # a table of defaults
