"""A diagnosis as text for a terminal of any width."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from sidecar.diagnosis.document import document
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.terminal import text
from sidecar.diagnosis.tree import diagnose
from tests.support.measured import anything


@given(anything, st.integers(40, 200))
def test_every_diagnosis_can_be_written_and_read(measured: Measured, columns: int) -> None:
    """As JSON without NaN or Infinity, and as text that names both numbers and fits a terminal, but for words too long for it."""
    written = document([diagnose(measured)])

    again = json.loads(json.dumps(written, allow_nan=False))
    shown = text(again, columns)

    assert text(written, columns) == shown
    assert shown.count("time to first token:") == shown.count("between tokens:") == 1
    assert "None" not in shown
    wide = [line for line in shown.splitlines() if len(line) > columns]
    assert [line for line in wide if len(line.removeprefix(_beginning(line)).split()) > 1] == []


def _beginning(line: str) -> str:
    """The mark or the name that a line's first word stands behind."""
    return "".join(re.findall(r"^ *(?:- |[0-9]+[.] |[a-z ]+: +[A-Z]+ +)?", line))
