"""The decision on one pod: the root of each miss, by its own facts, the signs of the pod and the incident that is open. Pure.

A look at the pod brings new signs. A miss is weighed by them (`weigh.py`); its weights are votes on the lead of the incident
(`incident.py`), which in turn may explain a miss that waited in the backlog that it left behind. So the same looks and misses in the same
order give the same roots: what they were decided from can be kept, and decided anew. A cause that has grown too little to be named is
not named, and what is told of the root (size, confidence, since when) is told by the incident alone. It knows no counter, and not how
long a miss may wait for more evidence.
"""

from collections.abc import Callable

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause, Root, Unknown, root_of, unknown
from sidecar.pod.incident import Incident
from sidecar.pod.life import Facts
from sidecar.pod.signs import Signs
from sidecar.pod.size import RootSize, sizes_of
from sidecar.pod.weigh import Weighed, weigh


_LONG_PROMPTS = root_of(Cause.PROMPT_MIX)


class Decision:
    """The roots of one process's misses. All instants are monotonic seconds."""

    def __init__(self, weigh: Callable[[Facts, Signs, Root | None], Weighed] = weigh) -> None:
        self._weigh = weigh
        self.incident = Incident()
        self.signs = Signs()
        self._sizes: dict[Root, RootSize] = {}
        """The sizes of the roots whose cause has grown enough at the last look to be named."""
        self._weighed: dict[tuple[Facts, Root | None], Weighed] = {}
        """In a storm most misses are alike: each kind is weighed once a look, and again with another lead."""

    def missed(self, at: float) -> None:
        """An objective was missed."""
        self.incident.missed(at)

    def tick(self, at: float, *, burning: bool) -> None:
        """Open, lead or close the incident. Call it about once a second."""
        self.incident.tick(at, burning=burning)

    def see(self, at: float, signs: Signs) -> None:
        """Take in the signs of a look."""
        self.signs, self._sizes = signs, sizes_of(signs)
        lead, uncached = self.incident.lead, signs.grown.get(Cause.UNCACHED)
        grown = None if lead is None else signs.has_grown(lead)
        self.incident.saw(at, grown=grown, uncached=1.0 if uncached is None else uncached.low)
        self._weighed.clear()

    def facts(self, of_miss: Facts, queued_since: float | None, at: float) -> Facts:
        """The facts of a miss, with those that the incident adds. `queued_since`: beginning of the backlog that it met; None: it met
        none.
        """
        return of_miss._replace(
            left_behind=self.incident.left_behind(queued_since, at), evicted=self.incident.evicted(queued_since, at)
        )

    def weighed(self, facts: Facts) -> Weighed:
        """The weights of a miss with these facts, at the last look."""
        lead = self.incident.shown_lead
        found = self._weighed.get((facts, lead))
        if found is None:
            found = self._weigh(facts, self.signs, lead)
            found = Weighed(*(self._named(each, facts) for each in found))
            self._weighed[facts, lead] = found
        return found

    def decided(self, facts: Facts, at: float, *, times: int = 1) -> Weighed:
        """So many misses with these facts are decided now: they vote."""
        found = self.weighed(facts)
        self.incident.voted(found.weights, at, times=times, own=found.own, behind=facts.left_behind, sizes=self._sizes)
        return found

    def _named(self, weights: dict[Root, float], facts: Facts) -> dict[Root, float]:
        """The weights without causes that have grown too little to be named: what these had is not known."""
        small = [root for root in weights if self._is_too_small(root, facts)]
        if not small:
            return weights
        rest = unknown(Unknown.YOUNG if self.signs.young else Unknown.UNCLEAR)
        named = dict(weights)
        named[rest] = sum(map(named.pop, small)) + named.get(rest, 0.0)
        return named

    def _is_too_small(self, root: Root, facts: Facts) -> bool:
        """Whether its ratio is surely below the one from which it may be named. In the backlog of a fault, the ratio of the fault counts;
        a prompt that is long by itself holds requests up whatever the mean is.
        """
        if root == _LONG_PROMPTS and (facts.behind_long_prompt or facts.waited_in is Blame.PREFILL):
            return False
        return self.signs.has_grown(root) is False and self.incident.size_of(root) is None
