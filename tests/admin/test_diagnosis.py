"""`/diagnosis` over a real socket: the last minutes of this process as JSON, and the same as text by the command."""

import json

import pytest

from sidecar.commands.diagnose.terminal import text
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.tree import diagnose
from sidecar.history.incident_log import IncidentLog
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.metrics.registry import Metrics
from tests.accounts.closed import ring_of, streamed
from tests.admin.broken_lane import broken
from tests.support.admin import Visit, visit


def test_a_diagnosis_is_json_and_stored_nowhere() -> None:
    """`tests/goldens` has what is in it."""

    async def scenario(visit: Visit) -> None:
        status, headers, _ = await visit.ask("/diagnosis")

        assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
        assert headers["Cache-Control"] == "no-store"

    visit(scenario)


def test_one_lane_whose_diagnosis_fails_takes_no_other_lanes_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In JSON, in text and on the status page, the failed lane says that it failed, the other lane has its verdict, and
    a counter rises."""

    def fails_for_batch(told: Measured) -> Diagnosis:
        if told.lane == "batch":
            raise ValueError("the mistake under test")
        return diagnose(told)

    monkeypatch.setattr("sidecar.diagnosis.tree.diagnose", fails_for_batch)

    async def scenario(visit: Visit) -> None:
        broken(visit.metrics)
        visit.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).child("llama", "batch").inc(50)

        status, _, body = await visit.ask("/diagnosis")
        answer = json.loads(body)
        page_status, _, page = await visit.ask("/")

        assert (status, page_status) == (200, 200)
        well, failed = answer["diagnoses"]
        assert (failed["lane"], failed["outcome"], well["lane"], well["phase"]) == ("batch", "refused", "chat", "queue")
        said = "The diagnosis of this lane failed: ValueError in test_diagnosis.py:"
        assert failed["missing"][0]["what"].startswith(said)
        assert (said in text(answer), said in page.decode(), "No verdict on batch" in page.decode()) == (True,) * 3
        assert visit.metrics.counter(DROPPED_TOTAL).child("observer_error").value == 2

    visit(scenario, Metrics(lanes=["batch", "chat"], prompt_buckets=["0-512"], models=["llama"]))


def test_a_lane_can_be_asked_for_alone() -> None:
    async def scenario(visit: Visit) -> None:
        broken(visit.metrics)

        found = [
            len(json.loads((await visit.ask(f"/diagnosis{query}"))[2])["diagnoses"])
            for query in ("", "?lane=chat", "?lane=batch", "?lane=chat&model=llama", "?model=other")
        ]

        assert found == [1, 1, 0, 1, 0]

    visit(scenario)


def test_the_slowest_requests_stand_beside_the_lanes() -> None:
    """In JSON, also of one lane alone, in text, and on the status page."""
    ring = ring_of([streamed(0.5)] * 99 + [streamed(4.0)] + [streamed(0.5, lane="batch")] * 20)

    async def scenario(visit: Visit) -> None:
        answer, alone = [json.loads((await visit.ask(f"/diagnosis{query}"))[2]) for query in ("", "?lane=batch")]
        page = (await visit.ask("/"))[2].decode()

        named = [(one["lane"], one["objective"], one["slowest"]) for one in answer["slowest"]["of"]]
        assert named == [("batch", "ttft", 0), ("batch", "tpot", 0), ("chat", "ttft", 1), ("chat", "tpot", 1)]
        assert answer["slowest"]["of"][2]["phases"] == {"queue": 4.0, "prefill": 0.5, "first_token": 0.25}
        assert [one["lane"] for one in alone["slowest"]["of"]] == ["batch", "batch"]
        assert "chat, time to first token: 1 of 100 took 4.75 s or more" in text(answer, 200)
        assert "1 of 100 took 4.75 s or more" in page

    visit(scenario, accounts=ring)


def test_the_last_incidents_can_be_attached_to_a_bug() -> None:
    """The listener shows the log that the judge of roots writes; it is empty before the first incident."""
    log = IncidentLog()

    async def scenario(visit: Visit) -> None:
        before = json.loads((await visit.ask("/incident.json"))[2])
        log.goes_on(1_790_000_010.0, ("prefill", "uncached"), began_at_unix=1_790_000_000.0, votes={}, ratios={})

        status, headers, body = await visit.ask("/incident.json")
        answer = json.loads(body)

        assert before == {"schema_version": 1, "incidents": []}
        assert (status, headers["Cache-Control"]) == (200, "no-store")
        assert [(one["phase"], one["cause"], one["ended_timestamp_seconds"]) for one in answer["incidents"]] == [
            ("prefill", "uncached", None)
        ]

    visit(scenario, incidents=log)


def test_asking_is_no_scrape() -> None:
    """A scrape fixes the constant labels for the rest of the process; `/diagnosis` does not."""

    async def scenario(visit: Visit) -> None:
        broken(visit.metrics)
        visit.metrics.counter(c.REQUESTS_TOTAL).child("llama", "chat", "0-512", "ok").inc()

        await visit.ask("/diagnosis")
        visit.metrics.tell_constants({"gpu_type": "h100"})

        assert visit.metrics.constants["gpu_type"] == "h100"

    registry = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"], constants={"gpu_type": "unknown"})
    visit(scenario, registry)
