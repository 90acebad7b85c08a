"""The labels that stand on every series of one process, and from when on they are fixed.

Knows that a value may come late: the sidecar serves before its engine has said what it is. What the config or the
environment states stands from the start. The rest is `unknown` until the engine tells, may still change while no page with
a request on it has been handed out, and is fixed by the first one that is: a series that was scraped with a value keeps
it for the process's life. What the engine says later, or says anew after it was replaced, is a mismatch and no new label.
"""

from collections.abc import Mapping

from sidecar.metrics.labels import cleaned


UNKNOWN = "unknown"


class Constants:
    """`quantization` and `gpu_type` of one process."""

    __slots__ = ("_sealed", "_stated", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        """`values`: as the config states them; those that are `unknown` are the engine's to tell."""
        self.values: Mapping[str, str] = {name: cleaned(value) for name, value in values.items()}
        """By label name. Replaced as a whole when something is learned: whoever has rendered with it compares identities."""
        self._stated = frozenset(name for name, value in values.items() if value != UNKNOWN)
        self._sealed = False

    def seal(self) -> None:
        """A page with requests on it is about to be handed out: from now on nothing changes."""
        self._sealed = True

    @property
    def sealed(self) -> bool:
        """Whether they are fixed."""
        return self._sealed

    def tell(self, told: Mapping[str, str | None]) -> dict[str, bool]:
        """What the engine says, None where it does not. Returns, for each label that is its to tell and that it tells, whether
        the value in force is another one.
        """
        heard = {
            name: cleaned(value)
            for name, value in told.items()
            if value is not None and name in self.values and name not in self._stated
        }
        if not self._sealed and any(self.values[name] != value for name, value in heard.items()):
            self.values = {**self.values, **heard}
        return {name: self.values[name] != value for name, value in heard.items()}
