"""Several clusters in one Prometheus, whose namespaces, jobs and pods have the same names: each is judged and told by itself."""

from collections.abc import Iterator

from tests.alert_rules.promtool import ALERTS, POD, Scenario, Suite
from tests.alert_rules.world import WELL, Traffic, broken, causes, engine, lane


SUITE = Suite("clusters")
STATE = Suite("clusters-state", rules=(ALERTS,), evaluation_seconds=60)
BROKEN, OTHERS = "us", ("eu", "ap", "sa")


def each_cluster(scenario: Scenario) -> Iterator[bool]:
    """Every cluster in turn: what is told then is of it. True for the one that breaks."""
    for scenario.cluster in (*OTHERS, BROKEN):
        yield scenario.cluster == BROKEN


def traffic(scenario: Scenario, later: Traffic, pod: str = POD) -> None:
    """One pod, which is well in the first span."""
    lane(scenario, WELL, later, pod=pod)
    causes(scenario, WELL, later, pod=pod)


@SUITE.scenario(6, 6)
def one_of_four_clusters_misses_all(scenario: Scenario) -> None:
    """It pages, with its cluster. A quarter of the misses of all four together would be a ticket."""
    for breaks in each_cluster(scenario):
        traffic(scenario, broken("prefill", 1.0) if breaks else WELL)

    scenario.alerts(12, "LLMPrefillBurn page", cluster=BROKEN)


@SUITE.scenario(6, 6)
def one_pod_of_one_cluster(scenario: Scenario) -> None:
    """It is compared with the pods of its own cluster; its namesakes elsewhere keep their lanes' numbers."""
    for breaks in each_cluster(scenario):
        for pod in (POD, "engine-1", "engine-2"):
            traffic(scenario, broken("decode", 0.9) if breaks and pod == POD else WELL, pod)

    scenario.pages(12, "LLMPodBurn", cluster=BROKEN, phase="decode")
    odd = f'count by (cluster) (pod:llm_slo:odd{{namespace="{scenario.namespace}"}} == 1)'
    scenario.yields(odd, 12, ("", {"cluster": BROKEN}, 1))


@STATE.scenario(10, 10)
def an_engine_of_one_cluster_is_down(scenario: Scenario) -> None:
    """Its namesake elsewhere, which is up, does not hide it."""
    for breaks in each_cluster(scenario):
        engine(scenario, up=(1, 0 if breaks else 1))

    scenario.alerts(18, "LLMEngineDown page", cluster=BROKEN)


@STATE.scenario(10, 10)
def a_sidecar_of_one_cluster_cannot_be_scraped(scenario: Scenario) -> None:
    """Its namesakes elsewhere have the same address."""
    for breaks in each_cluster(scenario):
        scenario.shows("up", 1, 0 if breaks else 1)
        scenario.shows("llm_sidecar_build_info", 1, None if breaks else 1, version="1")

    scenario.alerts(18, "LLMSidecarDown page", cluster=BROKEN)


@STATE.scenario(10, 10)
def the_sidecars_of_one_cluster_are_gone(scenario: Scenario) -> None:
    """Those of the same job elsewhere are no excuse."""
    for breaks in each_cluster(scenario):
        scenario.shows("up", 1, None if breaks else 1)
        scenario.shows("llm_sidecar_build_info", 1, None if breaks else 1, version="1")

    scenario.alerts(18, "LLMSidecarAbsent ticket", cluster=BROKEN)
