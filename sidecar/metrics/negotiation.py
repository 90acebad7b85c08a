"""Chooses a scraper's page format and gzip from its Accept and Accept-Encoding (RFC 9110 12.4 and 12.5).

Prometheus asks for OpenMetrics first, and for protobuf where it takes in native histograms; a browser and curl get text
0.0.4. Reads at most 32 items of a header, and never raises: an item that cannot be read counts as absent.
"""

from collections.abc import Iterator
from enum import StrEnum


class Format(StrEnum):
    """The formats of a page, each with its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"


_ITEMS = 32


def preferred(accept: str, *, protobuf: bool) -> Format:
    """The accepted format with the greatest weight: of two alike, the one that says more. Text if none is accepted.

    `protobuf`: whether there is such a page.
    """
    weights = dict.fromkeys(Format, 0.0)
    for name, parameters in _items(accept):
        found = _format(name, parameters)
        if found is not None:
            weights[found] = max(weights[found], _weight(parameters))
    if not protobuf:
        del weights[Format.PROTOBUF]
    best = max(weights.values())
    return next(each for each in reversed(weights) if weights[each] == best) if best > 0 else Format.TEXT


def _format(name: str, parameters: dict[str, str]) -> Format | None:
    if name == "application/vnd.google.protobuf":
        kind = parameters.get("proto"), parameters.get("encoding")
        return Format.PROTOBUF if kind == ("io.prometheus.client.MetricFamily", "delimited") else None
    if name == "application/openmetrics-text":
        return Format.OPENMETRICS if parameters.get("version", "1.0.0") in ("1.0.0", "0.0.1") else None
    return Format.TEXT if name == "text/plain" and parameters.get("version", "0.0.4") == "0.0.4" else None


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip is named with a weight above 0; `*` alone does not count."""
    return any(name == "gzip" and _weight(parameters) > 0 for name, parameters in _items(accept_encoding))


def _items(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for item in header.split(",", _ITEMS)[:_ITEMS]:
        name, *rest = item.split(";")
        pairs = (part.partition("=") for part in rest)
        yield name.strip().lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}


def _weight(parameters: dict[str, str]) -> float:
    try:
        weight = float(parameters.get("q", "1"))
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
