"""Asks a running sidecar and a running engine over HTTP: the only file of this folder with a socket and a clock.

It sends GET without redirects or credentials, with limits on time and bytes. `observation.py` interprets the answers.
If a server does not answer, RefusedError says the URL and the reason.
"""

import json
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from socket import gaierror

from sidecar.commands.capacity.answer import RefusedError, UnansweredError
from sidecar.commands.capacity.observation import Cache, Reading, read_cache, read_sidecar, since_start
from sidecar.config.values import parse_engine_url
from sidecar.metrics.vocabulary import WHOLE_PAGE


PAGE_TIMEOUT_SECONDS = 5.0
MAX_SIDECAR_PAGE_BYTES = 32 << 20
EVERY_SECONDS = 0.5
"""Time between two readings: short compared to a request, so that the number inside hardly changes between them."""

Get = Callable[[str, str], tuple[bytes, str]]
"""A function from base URL and path to the body and the Date header."""


def get(url: str, path: str) -> tuple[bytes, str]:
    """Body and Date header of a 200 response. Raises UnansweredError for any other outcome."""
    address = parse_engine_url(url)
    connection = HTTPConnection(address.host, address.port, timeout=PAGE_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path, headers={"Accept": "*/*", "Accept-Encoding": "identity"})
        response = connection.getresponse()
        body = response.read(MAX_SIDECAR_PAGE_BYTES)
    except (OSError, HTTPException) as error:
        raise UnansweredError(f"{url}{path} does not answer: {_failure(error)}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise UnansweredError(f"{url}{path} answers {response.status}; is it the right address?")
    return body, response.headers.get("Date", "")


def _failure(error: OSError | HTTPException) -> str:
    """The failure in plain words, with the thing to check; the library's own words only where the kernel has none."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there; does it run, and is the port right?"
    if isinstance(error, TimeoutError):
        return f"no answer within {PAGE_TIMEOUT_SECONDS:.0f} s"
    if isinstance(error, gaierror):
        return "no address is known for that host name; is it spelled right?"
    if isinstance(error, HTTPException):
        return "it does not answer as an HTTP server does; is the port right?"
    return f"{error.strerror or 'there is no way there'}; are host and port right?"


def observe(
    url: str,
    window_seconds: float,
    ask: Get = get,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Reading]:
    """Readings of a sidecar over a window; a window of 0 is the whole life of its process. Raises RefusedError."""
    first, date = _reading(url, ask, clock)
    if not window_seconds:
        if first.started is None or not date:
            raise RefusedError(f"{url} does not state its start time: give a --window above 0")
        # Date and start time both come from the sidecar's clock, so a wrong clock on this machine does not matter.
        return since_start(first, max(1.0, parsedate_to_datetime(date).timestamp() - first.started))
    readings = [first]
    while (passed := clock() - first.at) < window_seconds:
        sleep(min(EVERY_SECONDS, window_seconds - passed))
        readings.append(_reading(url, ask, clock)[0])
    return readings


def cache_of(url: str, ask: Get = get) -> Cache | None:
    """The cache as stated by the engine's own metrics; None if they do not state it."""
    try:
        return read_cache(ask(url, "/metrics")[0].decode(errors="replace"))
    except ValueError:
        return None


def longest_of(url: str, ask: Get = get) -> int | None:
    """Longest context that the engine accepts, from its list of models (vLLM: max_model_len); None if not stated."""
    try:
        said = json.loads(ask(url, "/v1/models")[0])
    except (ValueError, RecursionError, RefusedError):
        return None
    models = said.get("data") if isinstance(said, dict) else None
    lengths = [model.get("max_model_len") for model in models or () if isinstance(model, dict)]
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)


def _reading(url: str, ask: Get, clock: Callable[[], float]) -> tuple[Reading, str]:
    body, date = ask(url, WHOLE_PAGE)
    try:
        return read_sidecar(body.decode(errors="replace"), clock()), date
    except ValueError as error:
        raise RefusedError(f"{url}/metrics {error}") from None
