"""Closed sets of label values: the door that nothing a client invents gets through.

Knows which values are in, and what a value outside becomes. A set may be told further values (the engine's models, a
reload's lanes) up to a number fixed at the start, and never loses one: a series that was scraped stays. Whatever is
told is cleaned first, because one lone surrogate in a label value would break every scrape until the restart.
"""

from collections.abc import Iterable

from sidecar.metrics.declaration import Label


LONGEST = 256
"""Characters of a label value; Prometheus has no limit by default, but pages and operators' screens have."""


def cleaned(value: str) -> str:
    """The value as it may stand on a page: printable, encodable, at most 256 characters. Anything else becomes `?`."""
    return "".join(char if char.isprintable() else "?" for char in value[:LONGEST])


class ClosedSet:
    """The values of one label in one process: raw value in, shown value out."""

    __slots__ = ("_is_told", "_shown", "_spare", "fallback", "name")

    def __init__(self, label: Label, told: Iterable[str] = ()) -> None:
        self.name = label.name
        self.fallback = label.fallback
        self._shown = {str(value): str(value) for value in label.values}
        self._is_told = not label.values
        self._spare = 0 if label.values else label.most
        self.admit(told)

    def admit(self, values: Iterable[str]) -> list[str]:
        """Let further values in, as long as there is room; returns those that are new, as they will be shown."""
        fresh = []
        for value in values:
            if value in self._shown or value == self.fallback:
                continue
            if self._spare <= 0:
                break
            self._spare -= 1
            shown = cleaned(value)
            # What is shown is inside too: whoever goes through all shown values must find their children.
            self._shown[value] = self._shown[shown] = shown
            fresh.append(shown)
        return fresh

    def get(self, value: str) -> str | None:
        """The value as shown, or None if it is outside. The fallback of a told set is always inside."""
        shown = self._shown.get(value)
        return self.fallback if shown is None and self._is_told and value == self.fallback else shown

    def shown(self) -> tuple[str, ...]:
        """Every value that can stand on the page now, the fallback of a told set last."""
        values = tuple(dict.fromkeys(self._shown.values()))
        return (*values, self.fallback) if self._is_told else values
