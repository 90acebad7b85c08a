"""A diagnosis cannot name a phase without evidence."""

import pytest

from sidecar.diagnosis.findings import Diagnosis, Number, Outcome, State
from sidecar.diagnosis.measured import Latency, Measured
from sidecar.objectives.attribution import Blame


def test_a_record_without_evidence_cannot_be_made() -> None:
    number = Number(Latency(), State.UNKNOWN, None)
    with pytest.raises(ValueError, match="needs evidence"):
        Diagnosis(
            measured=Measured(source="hand"),
            outcome=Outcome.VERDICT,
            ttft=number,
            inter_token=number,
            phase=Blame.QUEUE,
        )
    with pytest.raises(ValueError, match="says what is missing"):
        Diagnosis(measured=Measured(source="hand"), outcome=Outcome.REFUSED, ttft=number, inter_token=number)
    with pytest.raises(ValueError, match="a verdict has a phase"):
        Diagnosis(measured=Measured(source="hand"), outcome=Outcome.VERDICT, ttft=number, inter_token=number)
