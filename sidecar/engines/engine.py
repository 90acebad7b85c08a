"""The known facts about the one engine behind this sidecar: its kind, its models, whether it is up, what may be asked of it.

Plain facts and no I/O: the prober (`probe/probe.py`) writes them, and the observer of each request reads them. Until the engine
is recognised, and it is known that it states no usage to clients that did not ask, the sidecar asks it for no usage.
"""

from collections.abc import Callable, Sequence

from sidecar.engines.kind import UNKNOWN_KIND
from sidecar.engines.kinds import kind_named
from sidecar.engines.names import ModelNames
from sidecar.engines.pool_behind import PoolBehind
from sidecar.engines.probe.replies import Identity
from sidecar.engines.usage_asking import UsageAsking


MOST_LISTS = 3
"""Further paths at which the engine is asked for its models."""
AUTO = "auto"
NONE = "none"


class Engine:
    """The known facts about the engine. `kind` is "auto" until it is recognised."""

    def __init__(
        self, kind: str, models: Sequence[str] = (), on_models: Callable[[Sequence[str]], None] | None = None
    ) -> None:
        """`models`: the closed set where the config states it; else the engine's own list, told to `on_models` once it is known.

        `on_models` is told of no model once the engine has described itself without a list. An empty list gets models later.
        """
        self.kind = kind
        self.speaks = kind_named(kind)
        """How its reports are read."""
        self.names = ModelNames(models)
        """The names of its models."""
        self.lists: tuple[str, ...] = ()
        """Further paths at which it may list its models: beside those on which it has served."""
        self.version: str | None = None
        self.quantization: str | None = None
        """As the engine says it; None where it does not."""
        self.gpu_type: str | None = None
        self.refuses_models: int | None = None
        """The status (401 or 403) with which it refuses to list its models; None where it does not."""
        self.source_gone = False
        """It was asked for the page of its reports, and has none: the release is another one."""
        self.reads_sums = False
        """Its page of sums was readable when it was last read, so that a request without a report was not told apart from others."""
        self.pool = PoolBehind()
        """The pool behind it, if it is a front end."""
        self.is_silent = False
        """It leaves its health checks without an answer, on connections that it accepts."""
        self._answers: bool | None = None
        """Whether it answers its health checks; None until asked."""
        self.away: str | None = None
        """The reason in words why its last health check failed, or why it is taken for down; None where it is not."""
        self.asked_what = False
        """It has answered the questions about its kind, whether or not it was recognised."""
        self.asking = UsageAsking()
        """Whether its answers allow that it is asked for usage."""
        self.detects = kind == AUTO
        """Its kind is to be found out; else the config has said it."""
        self._on_models = on_models
        self._names_by_kind()

    @property
    def up(self) -> bool | None:
        """Whether it answers its health checks, and has something behind it; None until asked."""
        return False if self.pool.gone else self._answers

    @up.setter
    def up(self, answers: bool | None) -> None:
        self._answers = answers

    @property
    def models(self) -> tuple[str, ...]:
        """All names that are values of the label `model`."""
        return self.names.all

    @property
    def base_models(self) -> tuple[str, ...]:
        """The models of its list, or of the config, without adapters, as far as the engine says which they are."""
        return tuple(name for name in self.names.listed if name not in self.names.adapters)

    @property
    def told(self) -> tuple[object, ...]:
        """All facts that it has stated, to detect a change."""
        return (
            self.kind,
            self.models,
            self.version,
            self.quantization,
            self.gpu_type,
            self.asked_what,
            self.refuses_models,
        )

    def accepts_usage(self, api: str, *, unrecognised: bool) -> bool:
        """Whether its kind takes the option on this API, the name of a dialect. `unrecognised`: also where its kind is not known, as the config allows."""
        return api in self.speaks.takes_include_usage_on or (unrecognised and self.speaks is UNKNOWN_KIND)

    def began_anew(self) -> None:
        """Another process may have another setting, be of another version, or serve other models."""
        self.asking.forget()
        self._names_by_kind()

    def is_kind(self, kind: str) -> None:
        """The engine's kind is known; facts about an earlier engine are dropped."""
        if kind == self.kind:
            return
        self.asking.forget()
        self.kind, self.speaks = kind, kind_named(kind)
        self._names_by_kind()

    def _names_by_kind(self) -> None:
        self.names.is_of_kind(self.speaks.same_model, refuses_unknown=self.speaks.refuses_unknown_models)

    def says(self, identity: Identity) -> None:
        """The engine described itself."""
        self.asked_what = True
        self.version = identity.version
        self.asking.is_of_release(shows_at_once=self.speaks.shows_forced_usage(identity.version))
        self.quantization = identity.quantization
        self.gpu_type = identity.gpu_type
        if identity.models is not None:
            self.serves(identity.models, identity.adapters)
        elif not self.names.listed and self._on_models is not None:
            self._on_models(())

    def serves(self, models: Sequence[str], adapters: Sequence[str] = ()) -> None:
        """The engine stated its models, adapters among them. If the config states them, this changes nothing. Nor does an empty list: the
        requests of a pool that is gone keep their label.
        """
        if models and self.names.list_is(models, adapters) and self._on_models is not None:
            self._on_models(self.names.listed)

    def answered(self, asked: str, said: str) -> None:
        """Its good answer to a request for the model `asked` stated the model `said` (`names.py` tells what that proves)."""
        fresh = self.names.answered_with(asked, said) if self.speaks.answers_prove_models else None
        if fresh is not None and self._on_models is not None:
            self._on_models((fresh,))

    def refused_model(self) -> None:
        """It refused a request, because it does not have the model."""
        if self.speaks.answers_prove_models:
            self.names.refuses_unknown = True

    def lacks_source(self, lacks: bool) -> None:
        """The page from which reports are polled is there, or this release has none."""
        self.source_gone = lacks

    def may_list_at(self, path: str | None) -> None:
        """It has served inference beside this path. The last MOST_LISTS are remembered, and none once its models are known."""
        if path is not None and not self.names.listed and path not in self.lists:
            self.lists = (*self.lists, path)[-MOST_LISTS:]
