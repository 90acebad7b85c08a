"""The incident of one pod: open since when, and led by which root. Pure.

An incident is open while objectives burn. Its lead is the phase with most of the recent votes, with the cause that has
most of them. Another phase takes the lead once it has twice the votes of the old one, or has been ahead of it for a
minute: so a queue that drains does not change the name of the fault. The lead also explains the backlog that it leaves
behind, if the misses showed it by themselves for a minute, and what was evicted from the prompt cache meanwhile. It
refuses to know how a root is decided (`weigh.py`).
"""

from collections import deque
from collections.abc import Mapping
from math import exp
from typing import NamedTuple

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Root
from sidecar.pod.size import RootSize, Sizes


VOTES_SECONDS = 60.0
"""Time constant with which votes fade."""
TAKES_OVER = 2.0
"""With so many times the votes of the lead, another root takes it over at once."""
LEADS_SECONDS = 60.0
"""After so long ahead of the lead, another root takes it over. A lead that misses showed for so long explains the backlog
that it leaves behind."""
LEFT_SECONDS = 600.0
"""A miss so long after the lead was last shown waits for another reason."""
STANDS_SECONDS = 15.0
"""A lead counts as present for so long after the last miss that showed it."""
SHOWN = 1 / 3
"""A miss shows the lead if evidence of its own gives more than this share to the lead's phase."""
FEWEST_VOTES = 3.0
LEAST_VOTES = 0.5
"""A lead for which so little speaks any more is none: after some minutes without evidence of its own."""
BEFORE_SECONDS = 60.0
"""An incident began with the oldest miss of this time before it was noticed."""
REMEMBERED_MISSES = 256
_NO_SIZES: Mapping[Root, RootSize] = {}


class Shown(NamedTuple):
    """The state of a root when evidence of a miss's own last showed it."""

    at: float
    confidence: float
    """Share, 0 to 1, that the root's phase had in the recently decided misses of the pod, those of unknown root included."""


class Incident:
    """The incident of one pod. All instants are monotonic seconds."""

    def __init__(self) -> None:
        self.began_at: float | None = None
        """None: no incident is open."""
        self.lead: Root | None = None
        self._given: dict[Root, float] = {}
        """Votes since this incident was noticed or, without one, since the last one was. They do not fade."""
        self._votes: dict[Root, float] = {}
        self._decided: dict[str, float] = {}
        """Phase to its weights in the decided misses, inherited ones included. They fade as votes do."""
        self._faded_at = 0.0
        self._challenger: tuple[str, float] | None = None
        """A phase that is ahead of the lead, and since when."""
        self._shown: tuple[str, float, float] | None = None
        """The phase that the misses of this incident showed, with the first and the last instant."""
        self._present = False
        """Whether the fault that leads is there at the last look."""
        self._evicted: float | None = None
        """None: the lead was not present at any look."""
        self._misses: deque[float] = deque(maxlen=REMEMBERED_MISSES)
        self._sizes: dict[Root, Sizes] = {}
        self._told: dict[str, Shown] = {}
        """By phase."""

    def missed(self, at: float) -> None:
        """An objective was missed."""
        if not self._misses or at >= self._misses[-1] + 1.0:  # one a second: in a storm the oldest is still there
            self._misses.append(at)

    def voted(
        self,
        weights: Mapping[Root, float],
        at: float,
        *,
        times: int = 1,
        own: Mapping[Root, float] | None = None,
        behind: bool = False,
        sizes: Mapping[Root, RootSize] = _NO_SIZES,
    ) -> None:
        """So many misses were decided alike. `own`: their weights from evidence of their own, without what the incident gives: their votes;
        None: all of `weights`. Of misses that waited `behind` what the lead left, and that show less by themselves, it keeps the lead.
        `sizes`: of the roots whose cause has grown enough to be named.
        """
        self._fade(at)
        own = {root: each for root, each in (weights if own is None else own).items() if _is_known(root)}
        inherited = 0.0 if self.lead is None else weights.get(self.lead, 0.0) - own.get(self.lead, 0.0)
        shows_more = max(own.values(), default=0.0) > inherited
        if behind and self.lead is not None and not shows_more:
            self._votes[self.lead] = max(self._votes.get(self.lead, 0.0), FEWEST_VOTES)
        for root, weight in weights.items():
            self._given[root] = self._given.get(root, 0.0) + times * weight
            self._decided[root.phase] = self._decided.get(root.phase, 0.0) + times * weight
        shown = dict.fromkeys((root.phase for root in own), 0.0)
        for root, vote in own.items():
            shown[root.phase] += vote
            if shows_more or not behind:
                self._votes[root] = self._votes.get(root, 0.0) + times * vote
        for root in own:
            if shown[root.phase] > SHOWN:
                self._show(root.phase, at)
                if root in weights:
                    self._tell(root, at, sizes)

    @property
    def votes(self) -> dict[str, float]:
        """Phase to its votes since this incident was noticed."""
        phases: dict[str, float] = {}
        for root, votes in self._given.items():
            phases[root.phase] = phases.get(root.phase, 0.0) + votes
        return phases

    @property
    def root(self) -> Root | None:
        """The lead or, without one, the root with most of the votes, which may be a reason for which it is not known; None
        without an incident, and before a miss of it is decided.
        """
        if self.began_at is None:
            return None
        return self.lead or max(self._given, key=self._given.__getitem__, default=None)

    @property
    def size(self) -> RootSize | None:
        """The size of the root; None where it has none, and where its cause had not grown enough to be named when misses showed it."""
        return None if self.root is None else self.size_of(self.root)

    def size_of(self, root: Root) -> RootSize | None:
        """The size that this root has or had in this incident."""
        sizes = self._sizes.get(root)
        return None if sizes is None else sizes.told

    @property
    def shown(self) -> Shown | None:
        """The last state of the root that is told; None before evidence of a miss's own has shown its phase, and where it is not known."""
        return None if self.root is None else self._told.get(self.root.phase)

    @property
    def shown_lead(self) -> Root | None:
        """The lead, if evidence of a miss's own speaks for its phase: no other lead explains further misses."""
        lead, shown = self.lead, self._shown
        return lead if lead is not None and shown is not None and shown[0] == lead.phase else None

    def left_behind(self, began_at: float | None, at: float) -> bool:
        """Whether the lead explains a backlog that began at the first instant and still stands at the second: the lead was
        shown for a minute, and the backlog is older than the end of that. `began_at`: None without a backlog.
        """
        if began_at is None or self.lead is None or self._shown is None:
            return False
        phase, since, until = self._shown
        lasted = phase == self.lead.phase and until - since >= LEADS_SECONDS
        return lasted and began_at <= until and at - until <= LEFT_SECONDS

    def saw(self, at: float, *, grown: bool | None, uncached: float = 1.0) -> None:
        """Take in a look at the pod. `grown`: whether the cause of the lead has grown; None: nothing measures it, and it counts
        as present while misses show it. `uncached`: at least so many times the usual share of the prompt tokens is not cached.

        The cache drops the prompts of requests that wait for long: what is not cached may be a consequence of the lead.
        """
        stands = self.shown_lead is not None and self._shown is not None and at - self._shown[2] <= STANDS_SECONDS
        self._present = self.lead is not None and (stands if grown is None else grown)
        if self._present:
            self._evicted = max(self._evicted or 1.0, uncached)

    def evicted(self, began_at: float | None, at: float) -> float | None:
        """The most that was not cached while the lead was present, over the usual share and at least 1, if the lead's fault is
        over and explains the backlog that began at the first instant (`left_behind`). None: it is not over, or was one of prompts.
        """
        if self.lead is None or self.lead.phase == Blame.PREFILL or self._present:
            return None
        return self._evicted if self.left_behind(began_at, at) else None

    def tick(self, at: float, *, burning: bool) -> None:
        """Open, lead or close the incident. Call it about once a second."""
        self._fade(at)
        if not burning:
            self.began_at = self.lead = self._challenger = self._shown = None
            self._present, self._evicted = False, None
            self._sizes.clear()
            self._told.clear()
            return
        if self.began_at is None:
            recent = (each for each in self._misses if each >= at - BEFORE_SECONDS)
            self.began_at = min(recent, default=at)
            self._given = {}
        self._lead(at)

    def _show(self, phase: str, at: float) -> None:
        if self._shown is not None and self._shown[0] == phase:
            self._shown = phase, self._shown[1], at
        elif self.lead is None or phase == self.lead.phase:
            self._shown = phase, at, at

    def _tell(self, root: Root, at: float, sizes: Mapping[Root, RootSize]) -> None:
        """Evidence of a miss's own shows this root."""
        self._told[root.phase] = Shown(at, self._decided[root.phase] / sum(self._decided.values()))
        if root in sizes:
            self._sizes.setdefault(root, Sizes()).add(at, sizes[root])

    def _lead(self, at: float) -> None:
        phases: dict[str, float] = {}
        for root, votes in self._votes.items():
            phases[root.phase] = phases.get(root.phase, 0.0) + votes
        ahead = max(phases, key=phases.__getitem__, default=None)
        if self.lead is not None and phases.get(self.lead.phase, 0.0) < LEAST_VOTES:
            self.lead = self._shown = None
        if ahead is None or phases[ahead] < FEWEST_VOTES:
            return
        led = None if self.lead is None else self.lead.phase
        if ahead == led:
            self._challenger = None
        else:
            if self._challenger is None or self._challenger[0] != ahead:
                self._challenger = ahead, at
            beaten = led is None or phases[ahead] >= TAKES_OVER * phases.get(led, 0.0)
            if beaten or at - self._challenger[1] >= LEADS_SECONDS:
                led, self._challenger, self._present, self._evicted = ahead, None, False, None
        of_lead = [root for root in self._votes if root.phase == led]
        if of_lead:
            self.lead = max(of_lead, key=self._votes.__getitem__)

    def _fade(self, at: float) -> None:
        if at > self._faded_at:
            faded = exp((self._faded_at - at) / VOTES_SECONDS)
            self._votes = {root: votes * faded for root, votes in self._votes.items() if votes * faded > 0.01}
            self._decided = {phase: votes * faded for phase, votes in self._decided.items() if votes * faded > 0.01}
            self._faded_at = at


def _is_known(root: Root) -> bool:
    return root.phase != Blame.UNATTRIBUTED
