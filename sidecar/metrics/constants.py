"""The labels that stand on every series of one process, and the instant from which they are fixed.

Knows that a value may come late, since the sidecar serves before its engine has stated what it is. A value from the
config or the environment is fixed from the start. The others are `unknown` until the engine states them. They may
change until the first page with a request on it is scraped, and are fixed from then on: a series that was scraped with
a value keeps it for the process's life. A value that the engine states later is a mismatch, and no new label.
"""

from collections.abc import Mapping

from sidecar.ledger.request_labels import UNKNOWN
from sidecar.metrics.labels import cleaned


class Constants:
    """`quantization` and `gpu_type` of one process."""

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
