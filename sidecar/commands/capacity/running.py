"""Asks a running engine over HTTP: the only file of this folder with a socket.

It sends GET without redirects or credentials, with limits on time and bytes. `engine_cache.py` interprets the page.
If the engine does not answer, RefusedError says the URL and the reason.
"""

import json
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from socket import gaierror

from sidecar.commands.capacity.answer import RefusedError, UnansweredError
from sidecar.commands.capacity.engine_cache import Cache, read_cache
from sidecar.config.values import parse_engine_url


PAGE_TIMEOUT_SECONDS = 5.0
LARGEST_PAGE_BYTES = 32 << 20

Get = Callable[[str, str], bytes]
"""A function from base URL and path to the body."""


def get(url: str, path: str) -> bytes:
    """Body of a 200 response. Raises UnansweredError for any other outcome."""
    address = parse_engine_url(url)
    connection = HTTPConnection(address.host, address.port, timeout=PAGE_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path, headers={"Accept": "*/*", "Accept-Encoding": "identity"})
        response = connection.getresponse()
        body = response.read(LARGEST_PAGE_BYTES)
    except (OSError, HTTPException) as error:
        raise UnansweredError(f"{url}{path} does not answer: {_failure(error)}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise UnansweredError(f"{url}{path} answers {response.status}; is it the right address?")
    return body


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


def cache_of(url: str, ask: Get = get) -> Cache | None:
    """The cache as stated by the engine's own metrics; None if they do not state it."""
    try:
        return read_cache(ask(url, "/metrics").decode(errors="replace"))
    except ValueError:
        return None


def longest_of(url: str, ask: Get = get) -> int | None:
    """Longest context that the engine accepts, from its list of models (vLLM: max_model_len); None if not stated."""
    try:
        said = json.loads(ask(url, "/v1/models"))
    except (ValueError, RecursionError, RefusedError):
        return None
    models = said.get("data") if isinstance(said, dict) else None
    lengths = [model.get("max_model_len") for model in models or () if isinstance(model, dict)]
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)
