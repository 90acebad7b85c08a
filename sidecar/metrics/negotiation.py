"""Chooses a scraper's page format and gzip from its Accept and Accept-Encoding (RFC 9110 12.4 and 12.5).

Prometheus asks for OpenMetrics first (only that format has exemplars); a browser and curl get text 0.0.4. Reads at most
32 items of a header, and never raises: an item that cannot be read counts as absent.
"""

from collections.abc import Iterator


TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ITEMS = 32


def prefers_openmetrics(accept: str) -> bool:
    """Whether OpenMetrics 1.0 is accepted, and at least as much as text 0.0.4."""
    openmetrics, text = 0.0, 0.0
    for name, parameters in _items(accept):
        weight = _weight(parameters)
        if name == "application/openmetrics-text" and parameters.get("version", "1.0.0") in ("1.0.0", "0.0.1"):
            openmetrics = max(openmetrics, weight)
        elif name == "text/plain" and parameters.get("version", "0.0.4") == "0.0.4":
            text = max(text, weight)
    return openmetrics > 0 and openmetrics >= text


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
