"""Two days of growth: which page counts, what is told of it, and what makes the run fail."""

from dataclasses import replace

import pytest

from bench.incidents.grade import LANE_CALM, MISSED, RIGHT, UNATTRIBUTED, WRONG, Case, FalsePage
from bench.incidents.growth import Growth, failures, first_named, growth, limits, told_growth
from bench.incidents.prometheus import Firing
from bench.incidents.world import Mode
from tests.support.tools import need_tool


FAULT_AT = 1200.0


def page(hours: float, phase: str, severity: str = "page") -> Firing:
    return Firing(FAULT_AT + 3600.0 * hours, {"alertname": "LLMBurn", "severity": severity, "phase": phase})


def case(result: str, said: str | None, *, owed: bool = True, lane: str = "code") -> Case:
    return Case(
        *(
            "prompts-grow",
            "unchunked",
            1,
            Mode.REPORTS,
            (lane, "ttft"),
            "page",
            owed,
            ("prefill",),
            ("prefill",),
            ("prefill",),
            None,
        ),
        *(result, result, result, said, None, None, None, None, None),
        front_end=False,
    )


PAGED = Growth(0, "unchunked", 78_000, 48.0, ("prefill", 31.24), (case(RIGHT, "prefill"),), ())


def test_the_first_page_that_names_a_phase_counts_and_neither_tickets_nor_what_came_before() -> None:
    began = [
        page(-0.1, "queue"),
        page(25, "unattributed"),
        page(26, "decode", "ticket"),
        page(32, "queue"),
        page(31, "prefill"),
    ]

    assert first_named(began, FAULT_AT) == ("prefill", 31.0)
    assert first_named(began[:3], FAULT_AT) is None


def test_a_growth_is_told_with_the_phase_and_the_hours() -> None:
    unknown = replace(PAGED, cases=(case(UNATTRIBUTED, "unattributed"), *PAGED.cases))

    assert told_growth(PAGED) == (
        "two days of growth: paged prefill after 31.2 h; prompts-grow on unchunked: 78,000 requests, first pages of what burned: right 1, false pages: 0"
    )
    assert told_growth(unknown).endswith("right 1, unattributed 1, false pages: 0")
    assert told_growth(replace(PAGED, hours=3.0, paged=None)).startswith("3 h of growth: paged nothing after 3.0 h;")


@pytest.mark.parametrize(
    ("growth", "faults"),
    [
        pytest.param(PAGED, [], id="right"),
        pytest.param(
            replace(PAGED, cases=(case(UNATTRIBUTED, "unattributed", lane="batch"), *PAGED.cases)),
            [],
            id="another lane whose page says that the phase is unknown",
        ),
        pytest.param(
            replace(PAGED, paged=("queue", 30.0), cases=(case(WRONG, "queue"),)),
            ["code/ttft paged queue, not prefill"],
            id="wrong",
        ),
        pytest.param(
            replace(PAGED, cases=(case(MISSED, None), case(MISSED, None, owed=False, lane="batch"))),
            ["code/ttft burned and was not paged"],
            id="missed",
        ),
        pytest.param(
            replace(PAGED, paged=None, cases=(case(UNATTRIBUTED, "unattributed"),)),
            ["no page names a phase"],
            id="unknown everywhere",
        ),
        pytest.param(
            replace(PAGED, paged=None, cases=()), ["no objective burned: nothing was shown"], id="nothing burned"
        ),
        pytest.param(
            replace(
                PAGED,
                false=(
                    FalsePage(
                        *(
                            "prompts-grow",
                            "unchunked",
                            1,
                            Mode.REPORTS,
                            LANE_CALM,
                            "LLMQueueBurn",
                            "queue",
                            ("batch", "ttft"),
                        ),
                        60.0,
                    ),
                ),
            ),
            ["LLMQueueBurn batch/ttft: this lane does not burn"],
            id="a page of a lane that is calm",
        ),
    ],
)
def test_a_growth_fails_by_a_wrong_phase_by_none_and_by_a_page_while_nothing_burns(
    growth: Growth, faults: list[str]
) -> None:
    assert failures(growth, limit="") == faults
    assert limits(growth, limit="") == []


def test_a_wrong_phase_may_be_a_known_limit_and_nothing_else() -> None:
    """It is told with its reason. A miss, and a run in which nothing burned, fail as ever."""
    wrong = replace(PAGED, paged=("queue", 30.0), cases=(case(WRONG, "queue"),))

    assert [
        failures(each, "because")
        for each in (
            wrong,
            replace(wrong, cases=(*wrong.cases, case(MISSED, None, lane="batch"))),
            replace(wrong, cases=()),
        )
    ] == [[], ["batch/ttft burned and was not paged"], ["no objective burned: nothing was shown"]]
    assert limits(wrong, "because") == ["KNOWN LIMIT: code/ttft paged queue, not prefill", "the reason: because"]
    assert limits(PAGED, "because") == ["the known limit was not met: take it out of growth.py"]


@pytest.mark.bench
def test_three_hours_of_growth_burn_and_no_page_names_another_phase() -> None:
    """The usual does not follow so fast."""
    need_tool("promtool")

    found = growth(0, 10_800.0)

    assert (found.burned, failures(found, limit="")) == (True, [])
    assert found.paged is not None
    assert found.paged[0] == "prefill"
