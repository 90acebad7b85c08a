"""The phase of pages and tickets: the root that leads in the window that burns, and when none does (alert_rules/roots.py)."""

from sidecar.pod.causes import ROOT_PHASES
from tests.alert_rules.promtool import JOB, LANE, MODEL, Happens, Scenario, Suite
from tests.alert_rules.world import WELL, Traffic, broken, causes, lane, undecided


SUITE = Suite("roots")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def one(*spans: Traffic) -> Happens:
    return lambda scenario: lane(scenario, *spans)


def decided(missing: float, many: float, minutes: float) -> Traffic:
    """So many of the misses of these minutes are decided, for the queue."""
    return Traffic(missing, {"queue": many / minutes / (120 * missing)})


@SUITE.scenario(6, 6)
def every_root_has_its_page(scenario: Scenario) -> None:
    """One name per phase, on a lane each."""
    for phase in ROOT_PHASES:
        lane(scenario, WELL, broken(phase), lane=phase)

    names = {phase: f"LLM{phase.title().replace('_', '')}Burn" for phase in ROOT_PHASES}
    who = {"alertstate": "firing", "severity": "page", "namespace": scenario.name, "job": JOB, **WHO}
    scenario.yields(
        f'ALERTS{{namespace="{scenario.name}",severity="page"}}',
        12,
        *(("ALERTS", {**who, "alertname": name, "phase": phase, "lane": phase}, 1) for phase, name in names.items()),
    )


QUEUE, NONE = "LLMQueueBurn page", "LLMUnattributedBurn page"
SUITE.cases(
    (6, 4),
    ("six of ten decided misses", "They name the phase.", one(WELL, broken("queue", prefill=0.39)), {8: QUEUE}),
    (
        "fewer than six of ten",
        "They name none, after a minute.",
        one(WELL, broken("queue", prefill=0.41)),
        {7.25: "", 8.5: NONE},
    ),
    ("misses that are not decided", "They count for no phase.", one(WELL, undecided()), {7.25: "", 8.5: NONE}),
    ("three decided misses", "They are enough.", one(WELL, decided(0.8, 3.2, 1.5)), {7.5: QUEUE}),
    ("two decided misses", "They are too few.", one(WELL, decided(0.8, 2.8, 1.5)), {7.5: ""}),
)
SUITE.cases(
    (40, 5, 8),
    (
        "a page that is over",
        "It lasts three minutes after its condition, and leaves no ticket and no other phase behind.",
        one(WELL, broken("queue"), WELL),
        {45: QUEUE, 48: QUEUE, 50: "", 51: "", 52: "", 53: ""},
    ),
)
SUITE.cases(
    (10, 6, 8, 8),
    (
        "one request a minute and then fewer",
        "All are missed: the page stands until it is over.",
        one(Traffic(per_minute=1), *(broken("queue", 1.0, rate) for rate in (1, 0.5)), Traffic(per_minute=1)),
        {16: QUEUE, 18.5: QUEUE, 20: QUEUE, 21.5: QUEUE, 23: QUEUE, 24: QUEUE, 29: "", 31: ""},
    ),
)


def down_with(traffic: Traffic, *up: float) -> Happens:
    """An engine that does not answer, and a lane that misses at the same time."""

    def happens(scenario: Scenario) -> None:
        lane(scenario, WELL, traffic, traffic)
        scenario.shows("llm_engine_up", *up)

    return happens


ENGINE = "LLMEngineBurn page"
SUITE.cases(
    (6, 0.5, 5),
    (
        "an engine that is down, and its lane",
        "Both come within the 15 s for which a group waits, and are one message.",
        down_with(broken("engine", 1.0), 1, 0, 0),
        {6.5: "", 6.75: f"{ENGINE}, LLMEngineDown page"},
    ),
    (
        "an engine that is down while lanes burn for another reason",
        "It has its two minutes.",
        down_with(broken("queue", 1.0, engine=0.39), 1, 0, 0),
        {6.75: QUEUE, 7.75: QUEUE, 8.5: f"{QUEUE}, LLMEngineDown page"},
    ),
)


def one_down_of_three(phase: str) -> Happens:
    """One pod's engine does not answer, and this pod misses because of this phase. The others are well."""

    def happens(scenario: Scenario) -> None:
        down = (WELL, broken(phase), broken(phase))
        for pod, spans in (("engine-0", down), ("engine-1", (WELL,) * 3), ("engine-2", (WELL,) * 3)):
            lane(scenario, *spans, pod=pod)
            causes(scenario, *spans, pod=pod)
            scenario.shows("llm_engine_up", 1, *(0 if spans is down else 1,) * 2, pod=pod)

    return happens


SUITE.cases(
    (6, 0.5, 5),
    (
        "an engine of three that is down",
        "Its two pages come at once: the one mutes the other.",
        one_down_of_three("engine"),
        {6.5: "", 7.5: "LLMPodBurn page engine, LLMEngineDown page"},
    ),
    (
        "an engine of three that is down while its pod burns for another reason",
        "It has its two minutes.",
        one_down_of_three("decode"),
        {
            7.5: "LLMPodBurn page decode",
            7.75: "LLMPodBurn page decode",
            8.5: "LLMPodBurn page decode, LLMEngineDown page",
        },
    ),
)
SLOW, SPLIT = broken("queue", 0.15), broken("queue", 0.15, prefill=0.45)
SUITE.cases(
    (6, 20, 40),
    ("a slow burn", "A ticket.", one(WELL, SLOW, SLOW), {60: "LLMQueueBurn ticket"}),
    (
        "a slow burn without a root",
        "A ticket that says so.",
        one(WELL, SPLIT, SPLIT),
        {60: "LLMUnattributedBurn ticket"},
    ),
    (
        "a slow burn after a page",
        "No ticket for half an hour.",
        one(WELL, broken("queue"), SLOW),
        {45: "", 55: "", 65: "LLMQueueBurn ticket"},
    ),
    (
        "a healthy lane",
        "Half of its budget: no alert at all.",
        one(*[broken("queue", 0.025)] * 3),
        {3: "", 6: "", 12: "", 30: "", 60: ""},
    ),
)

for name, promise, target, spans, window in (
    ("two minutes by requests", "A quarter of them.", 0.8, ((40, WELL), (2, broken("queue", 0.255))), "2m"),
    ("two minutes by budget", "Six times what is allowed.", 0.99, ((40, WELL), (2, broken("queue", 0.061))), "2m"),
    ("two minutes that do not burn", "Five are asked.", 0.95, ((40, WELL), (5, broken("queue", 0.245))), "5m"),
    ("two minutes at five times", "The same.", 0.99, ((40, WELL), (5, broken("queue", 0.059))), "5m"),
    ("five minutes that burn", "All that is allowed.", 0.95, ((40, WELL), (5, broken("queue", 0.051))), "5m"),
    ("nothing that burns", "No window.", 0.95, ((40, WELL), (5, broken("queue", 0.049))), ""),
    (
        "half an hour that burns",
        "Five minutes do not.",
        0.95,
        ((10, WELL), (20, broken("queue", 0.085)), (7, broken("queue", 0.045))),
        "30m",
    ),
    (
        "half an hour that burns less",
        "None.",
        0.95,
        ((10, WELL), (20, broken("queue", 0.06)), (7, broken("queue", 0.03))),
        "",
    ),
    ("three decided in half an hour", "They are enough.", 0.95, ((10, WELL), (36, decided(0.051, 3.2, 30))), "30m"),
    ("two decided in half an hour", "They are too few.", 0.95, ((10, WELL), (36, decided(0.051, 2.7, 30))), ""),
    ("three decided in five minutes", "They are enough.", 0.95, ((10, WELL), (9, decided(0.2, 3.1, 5))), "5m"),
    (
        "two decided in five minutes",
        "They are too few: thirty are asked.",
        0.95,
        ((10, WELL), (9, decided(0.2, 2.6, 5))),
        "30m",
    ),
):

    def tell(
        scenario: Scenario,
        spans: tuple[tuple[float, Traffic], ...] = spans,
        target: float = target,
        window: str = window,
    ) -> None:
        lane(scenario, *(traffic for _, traffic in spans), target=target)
        chosen = f'lane:llm_slo_root:share{{namespace="{scenario.name}",phase="queue"}}'
        found = [("", {"window": window}, 1.0)] if window else []
        scenario.yields(f"group by (window) ({chosen})", sum(minutes for minutes, _ in spans), *found)

    tell.__name__, tell.__doc__ = name, promise
    SUITE.scenario(*(minutes for minutes, _ in spans))(tell)
