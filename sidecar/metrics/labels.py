"""Closed sets of label values: a value that a client invents never becomes a label value.

Knows which values are in a set, and which value replaces one outside. A set may get further values (the engine's
models, a reload's lanes) up to a number fixed at the start, and never loses one: a series that was scraped stays. Each
further value is cleaned first, because one lone surrogate in a label value would break every scrape until the restart.
Knows whether `other` was needed, and whether values are still to be told, because series of values without traffic are a
cost without a use. Of the labels that stand on every series of a process, it knows the instant from which they are fixed.
"""

from collections.abc import Iterable, Mapping

from sidecar.ledger.request_labels import OTHER, UNKNOWN
from sidecar.metrics.declaration import Label


LONGEST = 256
"""Most characters of a label value. Prometheus has no limit by default, but pages and operators' screens have."""


def cleaned(value: str) -> str:
    """The value as it may stand on a page: printable, encodable, at most 256 characters. Anything else becomes `?`."""
    return "".join(char if char.isprintable() else "?" for char in value[:LONGEST])


class ClosedSet:
    """The values of one label in one process: raw value in, shown value out."""

    __slots__ = ("_is_told", "_listed", "_shown", "_spare", "fallback", "name", "needed", "pending")

    def __init__(self, label: Label, told: Iterable[str] = (), *, pending: bool = False) -> None:
        self.name = label.name
        self.fallback = label.fallback
        self.needed = label.fallback != OTHER
        """Whether the fallback is expected to be used: `unknown` always is, `other` once it was, but for one that is alone by nature."""
        self._shown = {str(value): str(value) for value in label.values}
        self._listed = tuple(self._shown.values())
        self._is_told = not label.values
        self._spare = 0 if label.values else label.most
        self.admit(told)
        self.pending = pending
        """Whether nothing is expected yet: the first values are still to be told, and no traffic has needed the fallback."""

    def admit(self, values: Iterable[str]) -> list[str]:
        """Add further values, as long as there is room; returns those that are new, as they will be shown.

        No value: there is none to be told, so that the fallback is alone.
        """
        self.pending = False
        fresh = []
        for value in values:
            if value in self._shown or value == self.fallback:
                continue
            if self._spare <= 0:
                break
            self._spare -= 1
            shown = cleaned(value)
            # The shown value is in the set too: code that goes through all shown values must find their children.
            self._shown[value] = self._shown[shown] = shown
            fresh.append(shown)
        if fresh:
            self._listed = tuple(dict.fromkeys(self._shown.values()))
        return fresh

    def get(self, value: str) -> str | None:
        """The value as shown, or None if it is outside. The fallback of a set filled at run time is always inside."""
        shown = self._shown.get(value)
        return self.fallback if shown is None and self._is_told and value == self.fallback else shown

    def fall_back(self) -> str:
        """The fallback, because a value is outside; `other` is expected from now on, also beside values that are told later."""
        self.needed = self.needed or self.pending or bool(self._listed)
        self.pending = False
        return self.fallback

    def shown(self) -> tuple[str, ...]:
        """Every value that can stand on the page now, the fallback of a set filled at run time last."""
        return (*self._listed, self.fallback) if self._is_told else self._listed

    @property
    def has_names(self) -> bool:
        """Whether there is a value beside the fallback."""
        return bool(self._listed)

    def expected(self) -> tuple[str, ...]:
        """The values of `shown` that traffic has or may be expected to have: without `other`, unless it was needed or is alone."""
        if self.pending:
            return ()
        return self.shown() if self.needed or not self._listed else self._listed


class Constants:
    """`quantization` and `gpu_type` of one process, which may come late: the sidecar serves before its engine has stated what it is.

    A value from the config or the environment is fixed from the start. The others are `unknown` until the engine states them. They may
    change until the first page with a request on it is scraped, and are fixed from then on: a series that was scraped with a value keeps
    it for the process's life. A value that the engine states later is a mismatch, and no new label.
    """

    __slots__ = ("_stated", "sealed", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        """`values`: as the config states them; those that are `unknown` are filled in by the engine."""
        self.values: Mapping[str, str] = {name: cleaned(value) for name, value in values.items()}
        """By label name. Replaced as a whole when a value changes, so that cached lines can compare its identity."""
        self._stated = frozenset(name for name, value in values.items() if value != UNKNOWN)
        self.sealed = False
        """Whether all values are fixed: a page with requests on it is about to be scraped."""

    def tell(self, told: Mapping[str, str | None]) -> dict[str, bool]:
        """Take in what the engine states (None: nothing). Returns, by label that it may fill in, whether the value in force differs."""
        heard = {
            name: cleaned(value)
            for name, value in told.items()
            if value is not None and name in self.values and name not in self._stated
        }
        if not self.sealed and any(self.values[name] != value for name, value in heard.items()):
            self.values = {**self.values, **heard}
        return {name: self.values[name] != value for name, value in heard.items()}
