"""Alerts about sidecars that give no metrics: down, absent or never scraped. They page only where pods are wanted and none answers.

A finished job, an old revision, a pool scaled to 0 and a lost node look alike on the sidecar's own series: these end. Two others tell them apart:

- `up`: the target is still listed. It is down after three scrapes without an answer; while others of its job answer, that is a ticket.
- kube-state-metrics (v2, its `docs/metrics/`) and Argo Rollouts say how many pods are wanted. The owners of pods are recorded while
  the pods are there, because kube-state-metrics forgets them with the pod. Where neither says what is wanted, it is a ticket.
"""

from functools import partial

from sidecar.commands.export.rules.burn import ENGINE_LABELS, INSTANCE_LABELS, POD_LABELS
from sidecar.commands.export.rules.rule import Alert, Record
from sidecar.commands.export.rules.state_alerts import Bases, state_alert
from sidecar.metrics.target_labels import CLUSTER, ONE_ENGINE
from sidecar.pod.causes import Cause


_LONGEST_WINDOW = "185s"
"""Three scrapes a minute apart, each up to 5 s late. The number of scrapes in it tells their interval."""
_NO_SCRAPE = " or ".join(
    f"max_over_time(up[{3 * every + 5}s]) == 0 and count_over_time(up[{_LONGEST_WINDOW}]) >= {180 // every}"
    for every in (15, 30, 60)
)
_KNOWN = "last_over_time(llm_sidecar_build_info[1d])"
_OF_POD, _WORKLOAD = f"{CLUSTER}, namespace, pod", f"{CLUSTER}, namespace, workload"
_POD_ENDED = f'unless on ({_OF_POD}) kube_pod_status_phase{{phase=~"Failed|Succeeded"}} == 1'
"""A pod that has ended may be listed as a target for hours."""
DOWN = Record(
    "target:llm_sidecar:down",
    f"group by ({INSTANCE_LABELS}) (up == 0 and ({_NO_SCRAPE}) and on ({INSTANCE_LABELS}) {_KNOWN} {_POD_ENDED})",
    "A sidecar that was scraped within a day and gave no answer to three scrapes in a row, 15, 30 or 60 s apart.",
)

_OWNER = '"workload", "/", "owner_kind", "owner_name"'
_CONTROLS = 'owner_is_controller!="false"'
SEEN = Record(
    "workload:llm_sidecar:seen",
    f"""
    group by ({ENGINE_LABELS}, workload) (
      llm_sidecar_build_info * on ({_OF_POD}) group_left (workload) topk by ({_OF_POD}) (1,
        label_join(kube_pod_owner{{owner_kind!="ReplicaSet",{_CONTROLS}}}, {_OWNER})
      or
        label_join(
          label_replace(kube_pod_owner{{owner_kind="ReplicaSet",{_CONTROLS}}}, "replicaset", "$1", "owner_name", "(.+)")
          * on ({CLUSTER}, namespace, replicaset) group_left (owner_kind, owner_name)
          topk by ({CLUSTER}, namespace, replicaset) (1, kube_replicaset_owner{{{_CONTROLS}}}),
          {_OWNER}
        )
      )
    )
    """,
    "The workloads, such as Deployment/llama, whose pods have a sidecar that is scraped.",
)


def _replicas(metric: str, kind: str, label: str) -> str:
    # One scrape of kube-state-metrics that fails takes no workload away.
    return f'label_replace(last_over_time({metric}[3m]), "workload", "{kind}/$1", "{label}", "(.+)")'


# The controller of Argo Rollouts is most often scraped without `honor_labels`, so that the namespace has another label.
_ROLLOUTS = f'label_replace({_replicas("rollout_info_replicas_desired", "Rollout", "name")}, "namespace", "$1", "exported_namespace", "(.+)")'
WANTED = Record(
    "workload:llm_sidecar:wanted",
    f"""
    last_over_time({SEEN.name}[1d]) * on ({_WORKLOAD}) group_left () max by ({_WORKLOAD}) (
      {_replicas("kube_deployment_spec_replicas", "Deployment", "deployment")}
      or {_replicas("kube_statefulset_replicas", "StatefulSet", "statefulset")}
      or {_replicas("kube_daemonset_status_desired_number_scheduled", "DaemonSet", "daemonset")}
      or {_ROLLOUTS}
    )
    """,
    "Pods that the platform wants of each of these workloads, for a day after its last sidecar.",
)

_ENDS_BY_NAME = "(.+)-(29|3[0-9])[0-9]{6}|(.+)-[0-9]{5}-deployment"
"""Jobs that end on purpose, known without kube-state-metrics: a CronJob's run, named by its minute since 1970, and a revision of Knative."""
_GIVES_METRICS = f"unless on ({ENGINE_LABELS}) (llm_sidecar_build_info or {DOWN.name})"
_OTHERS_ANSWER = (
    f"(last_over_time(llm_sidecar_build_info[{_LONGEST_WINDOW}]) unless on ({INSTANCE_LABELS}) {DOWN.name})"
)
_BY_PORT = 'up{container=~"|sidecar",endpoint=~"|admin|9901",instance=~".+:(9901|admin)"}'
"""9901 is also Envoy's port: a container or an endpoint that the scrape tells must be the sidecar's. Google's PodMonitoring names the port."""


def target_alerts(bases: Bases) -> tuple[tuple[Alert, ...], tuple[Alert, ...]]:
    """Alerts about sidecars that give no metrics: the pages, and the tickets."""
    own = partial(state_alert, cause=Cause.SIDECAR_LATE, bases=bases, dashboard="llm-sidecar")
    pages = (
        own(
            "LLMSidecarAbsent",
            f"""
            group by ({ENGINE_LABELS}) (
              min_over_time({WANTED.name}[15m]) > 0 and {WANTED.name} unless on ({_WORKLOAD}) {SEEN.name}
            )
            {_GIVES_METRICS}
            """,
            "{{ $labels.job }}: no sidecar is scraped, though its pods are wanted",
            "The platform wants pods of this job, for a quarter of an hour or longer, and Prometheus has metrics of none of their"
            " sidecars; within a day it had some. The pods are gone or pending, or discovery lost them. Without them nothing else pages.",
            severity="page",
            hold="5m",
            labels=ONE_ENGINE,
        ),
        own(
            "LLMSidecarDown",
            f"max by ({POD_LABELS}) ({DOWN.name}) == 1 unless on ({ENGINE_LABELS}) {_OTHERS_ANSWER}",
            "{{ $labels.pod }}: the sidecar cannot be scraped, nor any other of {{ $labels.job }}",
            "This sidecar was scraped within a day and gave no answer to three scrapes in a row, and no other sidecar of its job"
            " answers. Its traffic fails, or is not measured.",
            severity="page",
        ),
    )
    tickets = (
        own(
            "LLMSidecarAbsent",
            f"""
            group by ({ENGINE_LABELS}) (last_over_time(llm_sidecar_build_info{{job!~"{_ENDS_BY_NAME}"}}[1d]))
            {_GIVES_METRICS}
            unless on ({ENGINE_LABELS}) (
              {WANTED.name}
              or last_over_time({WANTED.name}[1d]) == 0
              or last_over_time({SEEN.name}{{workload=~"Job/.+"}}[1d])
            )
            """,
            "{{ $labels.job }}: no sidecar is scraped any more, and nothing says whether that is on purpose",
            "Prometheus had metrics of sidecars of this job within a day and has none now. It cannot know whether pods are still"
            " wanted: kube-state-metrics is not scraped, or does not count what owns these pods, or their workload was deleted"
            " while it wanted pods. Nothing else pages for this job. It ends after a day.",
            hold="5m",
            labels=ONE_ENGINE,
        ),
        own(
            "LLMSidecarDown",
            f"max by ({POD_LABELS}) ({DOWN.name}) == 1 and on ({ENGINE_LABELS}) {_OTHERS_ANSWER}",
            "{{ $labels.pod }}: the sidecar cannot be scraped; others of {{ $labels.job }} answer",
            "This sidecar was scraped within a day and gave no answer to three scrapes in a row, while others of its job answer."
            " A lost node looks so, and a sidecar that crashes.",
        ),
        own(
            "LLMSidecarNeverScraped",
            f"""
            group by ({POD_LABELS}) (
              (up{{container="sidecar",endpoint="admin"}} or {_BY_PORT}) == 0
              unless on ({INSTANCE_LABELS}) {_KNOWN}
              unless on ({ENGINE_LABELS}) ({_BY_PORT} == 1 unless on ({INSTANCE_LABELS}) {_KNOWN})
              {_POD_ENDED}
            )
            """,
            "{{ $labels.pod }}: its sidecar has never been scraped",
            "Prometheus lists this sidecar's admin port as a target, and no scrape of it had an answer within a day. Nothing that"
            " happens on this pod is measured or paged. A NetworkPolicy that does not open the port looks so.",
            hold="15m",
        ),
    )
    return pages, tickets
