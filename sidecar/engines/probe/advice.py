"""Advice on flags that make the engine report more, judged by the reports that its answers really carry. Pure.

It watches how the splits of the last requests were obtained, names the source of the engine's reports, and names the flag
that would make it report more. Where answers arrive whole, no flag is known: it says their share. It gives no advice below 20 requests, none on requests that no flag could improve (several
choices, an answer without a token), and none once the flag is set. An answer whose report stands beside usage that it does not state
shows nothing of a flag.
"""

from collections import Counter, deque
from dataclasses import dataclass

from sidecar.engines.engine import AUTO, NONE, Engine
from sidecar.engines.reports.report_sources import PolledRecords
from sidecar.ledger.account import Account, Reason
from sidecar.timeline.held_back import held_back
from sidecar.timeline.outcome import Outcome


WINDOW = 200
"""Number of the last requests with outcome ok that are kept."""
ENOUGH = 20
FEWEST_HELD_BACK = 5
"""Number of answers that arrived whole above which they are not taken as odd ones."""
MOSTLY = 0.5
"""Share of requests without a split above which advice is given."""

_UNTOLD = (
    *(Reason.NO_REPORT, Reason.NOT_TOLD_APART, Reason.REPORT_INCOMPLETE),
    *(Reason.ENGINE_MERGES_PHASES, Reason.ESTIMATED),
)
_WORDS = {
    Reason.IN_BAND: "in the answer itself",
    Reason.LATE_REPORT: "in reports that come after it (spans, files, polls)",
    Reason.SPAN_ALONE: "in spans, from which the requests themselves are counted",
    Reason.ESTIMATED: "by estimate",
}
_HELD_BACK = (
    "find what collects the stream (a parser of tool calls or of reasoning, a guardrail, a buffering proxy), and let it pass"
    " tokens on as they come"
)


@dataclass(frozen=True, slots=True)
class _SettledRequest:
    source: str
    reason: Reason
    cached_stated: bool | None
    """None: no usage was stated at all."""
    held_back: bool | None
    """The answer arrived whole; None: it was not streamed."""


class Advisor:
    """Watches requests; names the source of the engine's reports, and the flags that would improve them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: deque[_SettledRequest] = deque(maxlen=WINDOW)
        self._in_band = False
        """An answer of this engine stated its times, so that the flag for that is set, whatever others state."""
        self._about = engine.kind

    def closed(self, account: Account) -> None:
        self._forget_another()
        if account.outcome is not Outcome.OK or account.ledger is None or account.ledger.reason is Reason.NO_TOKEN:
            return
        usage, seen = account.marks.usage, account.ledger.reason is not Reason.SPAN_ALONE
        # No flag adds cached tokens to a span, and no span tells how an answer arrived.
        cached = (
            usage.cached_tokens is not None if usage is not None and usage.prompt_tokens is not None and seen else None
        )
        whole = held_back(account.marks) > 0 if account.streaming and seen else None
        self._in_band = self._in_band or account.ledger.reason is Reason.IN_BAND
        self._seen.append(_SettledRequest(account.ledger.source, account.ledger.reason, cached, whole))

    def source(self) -> str:
        """Text: how the time before the first token is split now or, before any request, how it is expected to be."""
        self._forget_another()
        engine = self._engine
        if not self._seen:
            channels = ", ".join(channel.source for channel in engine.speaks.channels)
            if engine.kind in (AUTO, NONE):
                return "no report is known for this engine; no request has ended yet"
            return f"expected from {channels or 'no report'}; no request has ended yet"
        ways = Counter(_WORDS[seen.reason] if seen.source != "none" else "not split" for seen in self._seen)
        return ", ".join(f"{way} {count / len(self._seen):.0%}" for way, count in ways.most_common())

    def hints(self, *, page_missing: bool) -> tuple[str, ...]:
        """Sentences, each with the flag. `page_missing`: the engine answers its page of metrics with an error."""
        self._forget_another()
        kind = self._engine.speaks
        found = [
            self._on_models(),
            self._on_split(),
            self._on_cache(),
            self._on_held_back(),
            kind.page_advice if page_missing else None,
        ]
        return tuple(hint for hint in found if hint)

    def _on_models(self) -> str | None:
        engine, refused = self._engine, self._engine.refuses_models
        if refused is None and engine.kind == AUTO and engine.asked_what and not (engine.models or engine.pool.serves):
            return "nothing there looks like an engine: it lists no models, and no answer has ended well yet; is engine.url right?"
        if refused is None or self._engine.models:
            return None
        return (
            f"the engine refuses to list its models ({refused}), so that requests count as model `other` until answers prove a name: give the sidecar its key"
            " with engine.api_key_file, or the names with engine.models"
        )

    def _on_split(self) -> str | None:
        untold = [seen for seen in self._seen if seen.source in ("none", "estimated") and seen.reason in _UNTOLD]
        if len(self._seen) < ENOUGH or len(untold) <= MOSTLY * len(self._seen):
            return None
        kind, states_usage = self._engine.speaks, sum(seen.cached_stated is not None for seen in untold)
        polled = [source.gone for source in kind.sources if isinstance(source, PolledRecords)]
        gone = polled[0] if self._engine.source_gone and polled else None
        text = gone or kind.advice_for(
            self._engine.version, reports=self._in_band, states_usage=states_usage > MOSTLY * len(untold)
        )
        return (
            f"{len(untold)} of the last {len(self._seen)} answers came without the engine's own times: {text}"
            if text
            else None
        )

    def _on_cache(self) -> str | None:
        stated = [seen.cached_stated for seen in self._seen if seen.cached_stated is not None]
        if len(stated) < ENOUGH or any(stated):
            return None
        text = self._engine.speaks.cached_advice
        return f"none of the last {len(stated)} usages states cached prompt tokens: {text}" if text else None

    def _on_held_back(self) -> str | None:
        streamed = [seen.held_back for seen in self._seen if seen.held_back is not None]
        whole = sum(streamed)
        if len(streamed) < ENOUGH or whole < FEWEST_HELD_BACK:
            return None
        return (
            f"{whole} of the last {len(streamed)} streamed answers arrive whole, {whole / len(streamed):.0%}, so nothing"
            f" tells their time per token and their decode: {_HELD_BACK}"
        )

    def _forget_another(self) -> None:
        if self._engine.kind != self._about:
            self._about, self._in_band = self._engine.kind, False
            self._seen.clear()
