"""Exports each sampled request to the user's collector, as a span with its phases as children, once its account is closed.

It takes a closed account at the end of a request, which costs as much as a queue's `append`; the spans are written later, in the
outbox's task, a few requests in a turn of the loop. It counts every span that it makes, and each of them has one fate
(`outbox.py`): made = acknowledged + dropped + in flight, at every instant. It refuses to know which requests are sampled
(`observe/span_sampling.py`) and how a span is written (`request_spans.py`). Loaded only where spans are exported.

Not opentelemetry-sdk (1.45.2): its exporter takes spans that a collector rejects (`partial_success`) for taken, so that nothing could
add up; it sends from a thread, with which the loop shares the interpreter; and it is 2.9 MB, where this is 0.2. The reader of spans
and the sender to a collector were here already. opentelemetry-proto alone is 1.4 MB, for one message that is only written.
"""

import asyncio
from collections.abc import Callable, Mapping

from sidecar.ledger.account import Account, OwnSpan, Share
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.metrics.vocabulary import SPAN_FATES
from sidecar.otlp.forwarding import request_of
from sidecar.otlp.outbox import Bounds, Outbox
from sidecar.otlp.received import Surroundings
from sidecar.otlp.request_spans import phases_of, resource_of, scope_of, spans_of


MOST_EXPORTED = Bounds(spans=16_384)
"""2,700 requests of six spans: with their accounts some 8 MB."""
WRITTEN_AT_ONCE = 4
"""Requests written in one turn of the loop: some 0.06 ms each."""

Closed = tuple[Account, OwnSpan, tuple[Share, ...]]


class Export:
    """The way of requests to the collector at `url`. `clock`: monotonic seconds; `unix_nanos`: Unix time now.

    `provider`: the kind of the engine, None while it is not known. `environment`: where OpenTelemetry's own variables are looked for.
    """

    def __init__(
        self,
        url: str,
        metrics: Metrics,
        *,
        version: str,
        placement: Mapping[str, str],
        environment: Mapping[str, str],
        provider: Callable[[], str | None],
        random_hex: Callable[[int], str],
        clock: Callable[[], float],
        unix_nanos: Callable[[], int],
        dropped: Callable[[str], None],
    ) -> None:
        self._around = Surroundings(resource_of(version, placement, environment), scope_of(version))
        self._provider = provider
        self._random_hex = random_hex
        self._clock = clock
        self._unix_nanos = unix_nanos
        self._dropped = dropped
        self.made = 0
        """Spans made since the start."""
        self.ended = dict.fromkeys(SPAN_FATES, 0)
        """Those with a fate."""
        self.outbox: Outbox[Closed] = Outbox("spans.export_url", url, MOST_EXPORTED, self._body_of, self._end)
        self._numbers = (
            metrics.counter(c.EXPORTED_SPANS_TOTAL),
            metrics.counter(c.EXPORTED_SPANS_ENDED_TOTAL),
            metrics.gauge(c.EXPORTED_SPANS_IN_FLIGHT),
        )
        metrics.before_scrape(self._write)

    def offer(self, account: Account) -> None:
        """Queue a closed account whose span is exported. Never raises, never waits."""
        span = account.own_span
        if span is None:
            return
        try:
            phases = phases_of(account, span)
            self.made += 1 + len(phases)
            self.outbox.put((account, span, phases), 1 + len(phases))
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self._dropped("observer_error")

    def _end(self, fate: str, spans: int) -> None:
        self.ended[fate] += spans

    def _write(self, _at: float) -> None:
        """Bring the metrics up to date, all at one instant: a page takes several turns of the loop, in which numbers change."""
        made, ended, in_flight = self._numbers
        made.child().inc(self.made - made.child().value)
        for fate, spans in self.ended.items():
            ended.child(fate).inc(spans - ended.child(fate).value)
        in_flight.child().set(self.outbox.in_flight)

    async def _body_of(self, batch: list[Closed]) -> bytes:
        """The request with the spans of these accounts. All their instants are told by one look at the clocks."""
        zero = self._unix_nanos() - round(self._clock() * 1e9)
        provider = self._provider()
        written: list[tuple[Surroundings, bytes]] = []
        for number, (account, span, phases) in enumerate(batch):
            if number and number % WRITTEN_AT_ONCE == 0:
                await asyncio.sleep(0)
            spans = spans_of(
                account,
                span,
                phases,
                provider=provider,
                unix_nanos=lambda at: zero + round(at * 1e9),
                random_hex=self._random_hex,
            )
            written += [(self._around, each) for each in spans]
        return request_of(written)
