"""The components that observe the engine beside the traffic: health checks, scrapes, comparison of reports, and advice.

Builds them from the config, and puts their findings on the metrics page, into one log line when something changes, and
into text for the status page. Opens no socket of its own and sees no request while it runs; each settled request is
passed to it. An error here is counted as `observer_error` and does not affect traffic.
"""

import asyncio
from collections.abc import Callable, Coroutine

import structlog

from sidecar.config.schema import EngineConfig
from sidecar.engines.engine import AUTO, NONE, Engine
from sidecar.engines.probe.advice import Advisor
from sidecar.engines.probe.agreement import Agreement, Tally
from sidecar.engines.probe.api_key import EngineApiKey
from sidecar.engines.probe.probe import Prober
from sidecar.engines.probe.scrape import Scraped, StateProber
from sidecar.engines.probe.state_names import Count
from sidecar.engines.usage_asking import STOPS
from sidecar.ledger.account import Account
from sidecar.lifecycle import Readiness
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.observe.engine_state import EngineStateRecorder
from sidecar.observe.record import Recorder
from sidecar.timeline.outcome import Outcome


ADVISE_SECONDS = 10.0

log = structlog.get_logger()


class EngineSide:
    """One process's view of its engine, from the outside."""

    def __init__(
        self,
        config: EngineConfig,
        engine: Engine,
        metrics: Metrics,
        recorder: Recorder,
        readiness: Readiness,
        *,
        clock: Callable[[], float],
        heard_at: Callable[[], float],
        in_flight: Callable[[], int],
        known: Callable[[], None],
    ) -> None:
        """`heard_at`: when traffic last brought a byte from the engine. `in_flight`: requests in flight. `known`:
        called when something was learned about the engine. To be told of engine restarts, set `state.on_restart`.
        """
        self.engine = engine
        self._url = config.url
        self._key_file = config.api_key_file
        self._metrics = metrics
        self._recorder = recorder
        self._readiness = readiness
        self._known = known
        engine.asking.told = self._asking_changed
        self._tally = Tally()
        self._advisor = Advisor(self.engine)
        self._advised: tuple[str, ...] = ()
        self.state = EngineStateRecorder(metrics, Agreement(self._tally), lambda: (clock(), in_flight()))
        self.prober = Prober(
            config.url,
            self.engine,
            readiness,
            clock=clock,
            changed=self._changed,
            heard_at=heard_at,
            key=EngineApiKey(config.api_key, config.api_key_file, self._key_unreadable).read,
        )
        self.state_prober = StateProber(
            config.metrics_url,
            self.engine,
            self.state,
            workers=config.worker_metrics_urls,
            may_reset=config.scrape_llama_cpp,
            restarted=self.prober.ask_anew,
        )

    @property
    def counts_output(self) -> bool:
        """Whether the engine's kind counts its output as it is made, and the last page of it that was read stated that count."""
        names = self.state_prober.names
        return names is not None and Count.OUTPUT_TOKENS in names.counts and self.state.counts_output

    def tasks(self) -> tuple[Coroutine[None, None, None], ...]:
        """Coroutines that run for the process's life. Cancel to stop."""
        return self.prober.run(), self.state_prober.run(), self._advise()

    def closed(self, account: Account) -> None:
        """Take in one settled request. Never raises."""
        try:
            if account.outcome is Outcome.ENGINE_UNREACHABLE or self.engine.pool.in_doubt:
                self.prober.not_reached()
            self._tally.closed(account)
            self._advisor.closed(account)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self._recorder.dropped("observer_error")

    def probe_done(self) -> None:
        """A probe of `sidecar verify` passed here and ended well, and has no account."""
        self._tally.probe_done()

    @property
    def name(self) -> str:
        """The engine in words for operators: its address, kind and version; never a credential."""
        engine = self.engine
        if engine.kind == AUTO:
            kind = "not recognised" if engine.asked_what else "kind not known yet"
        else:
            kind = "kind not asked" if engine.kind == NONE else engine.speaks.title
        return f"{self._url} ({kind}{f' {engine.version}' if engine.version else ''})"

    @property
    def source(self) -> str:
        """The way by which the engine's own times arrive."""
        return self._advisor.source()

    @property
    def hints(self) -> tuple[str, ...]:
        """Flags that would make the engine report more."""
        return self._advisor.hints(page_missing=self.state_prober.last is Scraped.BAD_STATUS)

    async def _advise(self) -> None:
        while True:
            await asyncio.sleep(ADVISE_SECONDS)
            self.advise()

    def advise(self) -> None:
        """Log what the operator could improve, once each time that it changes."""
        hints = self.hints
        # The counts in a hint grow between calls: hints count as unchanged as long as their flags are.
        flags = tuple(hint.rpartition(": ")[2] for hint in hints)
        if flags != self._advised:
            self._advised = flags
            if hints:
                log.warning("engine_could_tell_more", engine=self.engine.kind, source=self.source, hints=list(hints))

    def _key_unreadable(self, why: str) -> None:
        log.warning("engine_key_unreadable", file=self._key_file, why=why, hint="the engine is asked without a key")

    def _asking_changed(self, api: str, why: str | None) -> None:
        """The engine is no longer asked for usage on this API, or is asked again."""
        for reason in STOPS:
            self._metrics.gauge(c.USAGE_STOPPED).child(reason).set(int(reason in self.engine.asking.stopped.values()))
        if why is None:
            log.info("usage_asked", api=api)
        else:
            log.warning("usage_not_asked", api=api, reason=why, hint=STOPS.get(why, "the engine has begun anew"))

    def _changed(self) -> None:
        engine = self.engine
        self._known()
        stalled = self._metrics.gauge(c.ENGINE_STALLED).child().value
        self._metrics.gauge(c.ENGINE_UP).child().set(int(engine.up is True and not stalled))
        if not engine.up:
            self.state.unknown()
        if engine.kind not in (AUTO, NONE):
            self._metrics.info(c.ENGINE_INFO, engine.kind, engine.version or "unknown")
        self._metrics.tell_constants({"quantization": engine.quantization, "gpu_type": engine.gpu_type})
        write = log.warning if engine.up is False else log.info
        write(
            "engine",
            up=engine.up,
            kind=engine.kind if engine.kind != AUTO or not engine.asked_what else "not recognised",
            version=engine.version,
            models=list(engine.models),
            quantization=engine.quantization,
            gpu_type=engine.gpu_type,
            source=self.source,
            hints=list(self.hints),
            **({} if engine.away is None else {"why": engine.away}),
        )
