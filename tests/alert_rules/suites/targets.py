"""Sidecars that give no metrics: which pages, which is a ticket, and what leaves as planned and raises nothing."""

from tests.alert_rules.promtool import ALERTS, POD, Case, Happens, Scenario, Suite, gauge, of, other_target


DOWN, DOWN_OF_SOME = "LLMSidecarDown page", "LLMSidecarDown ticket"
ABSENT, UNKNOWN = "LLMSidecarAbsent page", "LLMSidecarAbsent ticket"
NEVER = "LLMSidecarNeverScraped ticket"


def up(*values: float | None, pod: str = POD, **labels: str) -> Happens:
    """A sidecar that can be scraped, or not; None: it is no target."""
    known = [value or None for value in values]
    told = {"pod": pod, **labels}
    return of(gauge("up", *values, **told), gauge("llm_sidecar_build_info", *known, **told, version="1"))


# --- three scrapes, whatever their interval --------------------------------------------------------------------------------


def every(seconds: int) -> Suite:
    """Scrapes of this interval that fail from minute 10 on; the rules are evaluated as often as the shipped page."""
    suite = Suite(f"scraped-every-{seconds}-s", rules=(ALERTS,), step_seconds=seconds)
    third = 10 + 3 * seconds / 60

    @suite.scenario(10, 2 * seconds / 60, 10)
    def two_scrapes_that_fail(scenario: Scenario) -> None:
        """They are lost, and no sidecar is."""
        up(1, 0, 1)(scenario)

        for later in range(0, 10 * seconds, 15):
            scenario.alerts(10 + later / 60)

    @suite.scenario(10, 10)
    def all_scrapes_fail(scenario: Scenario) -> None:
        """A page with the third."""
        up(1, 0)(scenario)

        scenario.alerts(third - 0.25)
        scenario.alerts(third + 0.25, DOWN)
        scenario.alerts(20, DOWN)

    @suite.scenario(10, 10)
    def one_pod_of_two(scenario: Scenario) -> None:
        """Others of its job answer, such as those that stand on no lost node: a ticket."""
        of(up(1, 0), up(1, pod="engine-1"))(scenario)

        scenario.alerts(third - 0.25)
        scenario.alerts(third + 0.5, DOWN_OF_SOME)
        scenario.alerts(19.5, DOWN_OF_SOME)

    @suite.scenario(10, 10)
    def two_pods_of_two(scenario: Scenario) -> None:
        """Pages, and no ticket beside them: that each of them answered a minute ago does not excuse the other."""
        of(up(1, 0), up(1, 0, pod="engine-1"))(scenario)

        firing = f'count by (severity) (ALERTS{{namespace="{scenario.name}",alertstate="firing"}})'
        for minute in (third + 0.25, third + 0.5, 20):
            scenario.yields(firing, minute, ("", {"severity": "page"}, 2))

    return suite


SCRAPED = tuple(map(every, (15, 30, 60)))


# --- down, absent, and gone as planned -------------------------------------------------------------------------------------


TARGETS = Suite("targets", rules=(ALERTS,), step_seconds=60, evaluation_seconds=30)
_PLATFORM = {"job": "kube-state-metrics", "pod": "kube-state-metrics-0"}
"""Labels of what kube-state-metrics shows, unless it is about a pod."""


def owned(kind: str, name: str, *there: float | None, pod: str = POD) -> Happens:
    """A pod whose owner kube-state-metrics shows as long as the pod is there. Of a Deployment and a Rollout it is a ReplicaSet."""
    values = there or (1, None)
    if kind not in {"Deployment", "Rollout"}:
        return gauge("kube_pod_owner", *values, job=_PLATFORM["job"], pod=pod, owner_kind=kind, owner_name=name, owner_is_controller="true")  # fmt: skip
    replicas = f"{name}-6d5f"
    return of(
        owned("ReplicaSet", replicas, *values, pod=pod),
        gauge("kube_replicaset_owner", 1, **_PLATFORM, replicaset=replicas, owner_kind=kind, owner_name=name),
    )


def wanted(kind: str, name: str, *replicas: float | None) -> Happens:
    """How many pods the platform wants of a workload."""
    match kind:
        case "Deployment":
            return gauge("kube_deployment_spec_replicas", *replicas, **_PLATFORM, deployment=name)
        case "StatefulSet":
            return gauge("kube_statefulset_replicas", *replicas, **_PLATFORM, statefulset=name)
        case "DaemonSet":
            return gauge("kube_daemonset_status_desired_number_scheduled", *replicas, **_PLATFORM, daemonset=name)
        case _:
            return gauge("rollout_info_replicas_desired", *replicas, job="argo", pod="argo-0", name=name)


def drained(kind: str) -> Happens:
    return of(up(1, None), owned(kind, "llama"), wanted(kind, "llama", 2))


def gone(kind: str) -> Case:
    name, expected = f"the pods of a {kind} are gone that wants pods", {24.0: "", 26.0: ABSENT, 40.0: ABSENT}
    return name, "A drained pool: a page.", drained(kind), expected


def rollout_in_another_namespace(scenario: Scenario) -> None:
    """The controller's own namespace is the series', as without `honor_labels`."""
    of(up(1, None), owned("Rollout", "llama"))(scenario)
    labels = f'namespace="argo",exported_namespace="{scenario.namespace}",name="llama",job="argo"'
    scenario.series[f"rollout_info_replicas_desired{{{labels}}}"] = "2x40"


def renamed(scenario: Scenario) -> None:
    """The pods of one workload have another job from then on."""
    of(up(1, None), up(None, 1, pod="engine-1", job="renamed"))(scenario)
    of(owned("Deployment", "llama"), wanted("Deployment", "llama", 1))(scenario)
    gauge("kube_pod_owner", None, 1, job=_PLATFORM["job"], pod="engine-1", owner_kind="ReplicaSet", owner_name="llama-6d5f")(scenario)  # fmt: skip


TARGETS.cases(
    (20, 20),
    *map(gone, ("Deployment", "StatefulSet", "DaemonSet", "Rollout")),
    ("a Rollout of a controller in another namespace", "A page too.", rollout_in_another_namespace, {26: ABSENT}),
    (
        "a Deployment that is scaled to none",
        "On purpose: nothing.",
        of(up(1, None), owned("Deployment", "llama"), wanted("Deployment", "llama", 2, 0)),
        {26: "", 40: ""},
    ),
    (
        "a workload that is deleted while it wants pods",
        "Nothing says whether by mistake: a ticket.",
        of(up(1, None), owned("Deployment", "llama"), wanted("Deployment", "llama", 2, None)),
        {24: "", 29: UNKNOWN, 40: UNKNOWN},
    ),
    (
        "an owner that kube-state-metrics does not count",
        "A ticket.",
        of(up(1, None), owned("CloneSet", "llama"), wanted("Deployment", "another", 2)),
        {24: "", 26: UNKNOWN},
    ),
    ("a cluster without kube-state-metrics", "A ticket.", up(1, None), {24: "", 26: UNKNOWN, 40: UNKNOWN}),
    (
        "other engines of this and of another namespace are well",
        "They hide nothing.",
        of(up(1, None), gauge("llm_sidecar_build_info", 1, pod="other-0", job="other", version="1")),
        {26: UNKNOWN},
    ),
    (
        "a run of a CronJob that has ended",
        "Nothing.",
        of(up(1, None, job="nightly"), owned("Job", "nightly-1")),
        {26: "", 40: ""},
    ),
    (
        "a run of a CronJob without kube-state-metrics",
        "Its name says what it was.",
        up(1, None, job="nightly-29412345"),
        {26: "", 40: ""},
    ),
    (
        "an old revision of Knative",
        "Nothing.",
        of(up(1, None), owned("Deployment", "vllm-1"), wanted("Deployment", "vllm-1", 1, 0), up(None, 1, pod="engine-1", job="vllm-2")),
        {26: "", 40: ""},
    ),
    (
        "an old revision of Knative without kube-state-metrics",
        "Its name says what it was.",
        up(1, None, job="vllm-00001-deployment"),
        {26: "", 40: ""},
    ),
    ("a workload whose pods have another job now", "Nothing is gone.", renamed, {26: "", 40: ""}),
    (
        "kube-state-metrics of two replicas",
        "Each series is there twice: a page all the same.",
        of(drained("Deployment"), gauge("kube_pod_owner", 1, None, job="b", owner_kind="ReplicaSet", owner_name="llama-6d5f"), gauge("kube_replicaset_owner", 1, job="b", pod="b", replicaset="llama-6d5f", owner_kind="Deployment", owner_name="llama"), gauge("kube_deployment_spec_replicas", 2, job="b", pod="b", deployment="llama")),
        {26: ABSENT},
    ),
    (
        "one sidecar of two is no target any more",
        "That is a rollout.",
        of(drained("Deployment"), up(1, 1, pod="engine-1")),
        {26: "", 40: ""},
    ),
    (
        "a sidecar that answers with other metrics",
        "Another version, or a relabelling.",
        of(gauge("up", 1), gauge("llm_sidecar_build_info", 1, None, version="1"), owned("Deployment", "llama", 1, 1), wanted("Deployment", "llama", 1)),
        {26: ABSENT},
    ),
    (
        "a pod that has ended and is still a target",
        "It is not down. Its run has ended: nothing.",
        of(up(1, 0), owned("Job", "nightly"), gauge("kube_pod_status_phase", 0, 1, job="k", phase="Succeeded")),
        {26: "", 40: ""},
    ),
    (
        "a sidecar that is down is told once",
        "It is a target still, so it is not absent. The engine beside it may answer or not.",
        of(up(1, 0), owned("Deployment", "llama", 1, 1), wanted("Deployment", "llama", 1), other_target("up", "engine", "1x40")),
        {24: DOWN, 40: DOWN},
    ),
    ("something else that cannot be scraped", "It never was a sidecar.", gauge("up", 1, 0, instance="engine-0:8000"), {40: ""}),
)  # fmt: skip
TARGETS.cases(
    (10, 10, 30),
    (
        "a Deployment that is wanted again",
        "It has a quarter of an hour to begin.",
        of(up(1, None, None), owned("Deployment", "llama", 1, None, None), wanted("Deployment", "llama", 1, 0, 1)),
        {30: "", 39: "", 42: ABSENT},
    ),
    (
        "a Deployment that is scaled to none and then deleted",
        "Nothing.",
        of(up(1, None, None), owned("Deployment", "llama", 1, None, None), wanted("Deployment", "llama", 1, 0, None)),
        {29: "", 50: ""},
    ),
)


@TARGETS.scenario(20, 20)
def a_date_in_a_name(scenario: Scenario) -> None:
    """It is no minute of a CronJob: a ticket."""
    up(1, None, job="llama-20261201")(scenario)

    scenario.alerts(26, UNKNOWN, job="llama-20261201")


@TARGETS.scenario(10, 10, 2, 8)
def a_scrape_that_fails_after_a_gap(scenario: Scenario) -> None:
    """Prometheus was away: two scrapes since then are not three."""
    up(1, None, 0, 1)(scenario)

    for minute in (21, 22):
        scenario.alerts(minute, UNKNOWN)
    scenario.alerts(24)


# --- never scraped ---------------------------------------------------------------------------------------------------------


def target(*values: float | None, instance: str = "engine-0:9901", **labels: str) -> Happens:
    """A target that never gave any metrics of a sidecar."""
    return gauge("up", *values, instance=instance, **labels)


TARGETS.cases(
    (20, 20),
    ("a target of the admin port that never answers", "The scrape adds no label but these: a ticket.", target(0), {14: "", 16: NEVER, 40: NEVER}),
    ("a PodMonitor's target", "Whatever its port is.", target(0, instance="engine-0:9902", container="sidecar", endpoint="admin"), {16: NEVER}),
    ("a target of Google's PodMonitoring", "Its port is a name, and no label tells the endpoint.", target(0, instance="engine-0:admin", container="sidecar"), {16: NEVER}),
    ("a port of that name of another container", "None of ours.", target(0, instance="engine-0:admin", container="envoy"), {40: ""}),
    ("a target whose container alone is told", "A ticket.", target(0, container="sidecar"), {16: NEVER}),
    ("a target whose endpoint alone is told", "A ticket.", target(0, endpoint="admin"), {16: NEVER}),
    ("Envoy by its container", "None of ours.", target(0, container="envoy"), {40: ""}),
    ("Envoy by its endpoint", "None of ours.", target(0, endpoint="envoy-admin"), {40: ""}),
    ("another container of the same name", "Its port is another.", target(0, instance="engine-0:8080", container="sidecar"), {40: ""}),
    ("Envoys of which another one answers", "Then 9901 is not ours in this job.", of(target(0), target(1, pod="envoy-1", instance="envoy-1:9901")), {40: ""}),
    ("a sidecar of which another one answers", "It stays ours.", of(target(0), up(1, pod="engine-1")), {16: NEVER, 40: NEVER}),
    ("another port", "None of ours.", target(0, instance="engine-0:8000"), {40: ""}),
    ("a target that answers at last", "Nothing.", of(target(0, 1), gauge("llm_sidecar_build_info", None, 1, version="1")), {16: NEVER, 21: "", 40: ""}),
    ("a pod that has ended before its first scrape", "Nothing.", of(target(0), gauge("kube_pod_status_phase", 1, job="k", phase="Failed")), {40: ""}),
)  # fmt: skip


NONE_AT_ALL = Suite("absent", rules=(ALERTS,), evaluation_seconds=30, plain=True, apart=True)


@NONE_AT_ALL.scenario(2, 8)
def no_sidecar_any_more(scenario: Scenario) -> None:
    """A ticket that says what it cannot know."""
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.alerts(6.5)
    scenario.alerts(8, UNKNOWN)
    scenario.reads(8, UNKNOWN, "sidecar: no sidecar is scraped any more, and nothing says whether that is on purpose")


@NONE_AT_ALL.scenario(2, 8)
def no_sidecar_was_ever_scraped(scenario: Scenario) -> None:
    """A cluster that has these rules and no engine is well."""
    scenario.shows("llm_build_info", 1)

    scenario.alerts(10)


@NONE_AT_ALL.scenario(2, 8)
def the_only_sidecar_cannot_be_scraped(scenario: Scenario) -> None:
    """One page for one fault."""
    scenario.shows("up", 1, 0)
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.alerts(9, DOWN)
