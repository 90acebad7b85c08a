"""The canary's gate for Argo Rollouts and for Flagger, as their own templates.

Knows both tools' YAML and their words for the new version's pods and the old one's. The questions, the query and the
limit are those of `gate_query.py`, so that a rollout, the canary dashboard and the bench of false alarms judge by one rule.
"""

from collections.abc import Iterable, Iterator, Mapping

from grafana.gate_arithmetic import LOOKS
from grafana.gate_query import FAILS_BELOW, Versions, gate_query
from sidecar.commands.compare.gate_questions import GATE_QUESTIONS, Asked


ROLLOUT_WINDOW = "2h"
"""How far back the query looks: at least as long as a rollout. Minutes without both versions do not count."""

LONGEST_NAMES = 60
"""Characters of Flagger's target, namespace and lane together: it asks by GET, and servers refuse an address above 8 KiB."""

_ARGO = Versions(
    both='pod=~".+-({{args.canary-hash}}|{{args.stable-hash}})-.+"',
    canary='pod=~".+-{{args.canary-hash}}-.+"',
    common='namespace="{{args.namespace}}",lane="{{args.lane}}"',
)
_FLAGGER = Versions(
    both=r'pod=~"{{ target }}(-primary)?-\\w+-\\w+"',
    canary=r'pod=~"{{ target }}-\\w+-\\w+"',
    common='namespace="{{ namespace }}",lane="{{ variables.lane }}"',
)

NOT_STREAMED = (Asked.E2E_MISSES,)
"""Questions of a template of their own in Argo: no lane of streamed answers has this objective, and a question without an answer
would hold its rollout."""

_ABOUT = f"""\
# Written by `python -m grafana`; grafana/README.md explains. Is the new version worse than the old one?
# Each query answers with one number, a p value: how probable it is that two versions that are alike ever look so
# different, however often one asks. Below {FAILS_BELOW:g} the new version is failed. Leave out the metric of an objective that
# the lane does not have: no answer is neither a pass nor a failure.
"""
_ARGO_ABOUT = """\
# No answer, such as without traffic, is inconclusive, and more than a few of them pause the rollout for a person.
# In the Rollout: canary-hash from valueFrom.podTemplateHashValue Latest, stable-hash from Stable.
# window: at least as long as the rollout.
# llm-canary-e2e: beside llm-canary in the Rollout's templates, for a lane with the objective e2e, which is for answers that are not
# streamed.
"""
_ARGO_HEAD = """\
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata:
  name: NAME
spec:
  args:
  - name: namespace
  - name: lane
  - name: canary-hash
  - name: stable-hash
  - name: window
    value: WINDOW
  - name: prometheus
    value: http://prometheus:9090
  metrics:
"""
_FLAGGER_HEAD = f"""\
# No answer, such as without traffic, halts the rollout. Pods of the old version are named TARGET-primary-HASH-ID, those
# of the new one TARGET-HASH-ID. In the Canary's metrics: thresholdRange min {FAILS_BELOW:g}, templateVariables lane.
# The query looks back {ROLLOUT_WINDOW}: make it at least as long as the rollout. A version that is tried again within this time
# is judged together with the try before. The names of target, namespace and lane may have {LONGEST_NAMES} characters together: longer
# ones make an address above 8 KiB, which servers refuse.
"""


def rollout_files() -> Mapping[str, str]:
    """Path below grafana/ to text."""
    return {
        "canary/argo-analysis-template.yaml": _ABOUT
        + _ARGO_ABOUT
        + _argo_template("llm-canary", [asked for asked in GATE_QUESTIONS if asked not in NOT_STREAMED])
        + "---\n"
        + _argo_template("llm-canary-e2e", NOT_STREAMED),
        "canary/flagger-metric-template.yaml": _ABOUT + _FLAGGER_HEAD + "---\n".join(_flagger_templates()),
    }


def _argo_template(name: str, questions: Iterable[Asked]) -> str:
    return _ARGO_HEAD.replace("NAME", name).replace("WINDOW", ROLLOUT_WINDOW) + "".join(map(_argo_metric, questions))


def _argo_metric(asked: Asked) -> str:
    one = "len(result) == 1 && !isNaN(result[0]) && result[0]"
    return f"""\
  - name: {asked}
    initialDelay: 5m
    interval: 1m
    count: {LOOKS}
    failureLimit: 0
    inconclusiveLimit: 5
    successCondition: {one} >= {FAILS_BELOW:g}
    failureCondition: {one} < {FAILS_BELOW:g}
    provider:
      prometheus:
        address: '{{{{args.prometheus}}}}'
        query: |
          {gate_query(GATE_QUESTIONS[asked], _ARGO, "{{args.window}}")}
"""


def _flagger_templates() -> Iterator[str]:
    for asked, question in GATE_QUESTIONS.items():
        yield f"""\
apiVersion: flagger.app/v1beta1
kind: MetricTemplate
metadata:
  name: llm-{asked}
spec:
  provider:
    type: prometheus
    address: http://prometheus:9090
  query: |
    {gate_query(question, _FLAGGER, ROLLOUT_WINDOW)}
"""
