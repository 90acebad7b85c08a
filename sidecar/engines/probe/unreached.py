"""The reason in words why a health check found no engine: a line of the log, a sentence of the status page and of `sidecar diagnose`.

The commonest mistake is a wrong `engine.url`, and each wrong one fails in its own way: a port that nothing listens on refuses, a wrong name does
not resolve, an address without a host does not answer, a port with TLS closes the connection or answers in no HTTP. So the text names what happened and
the address; while no check of this process was ever answered, it also asks whether the address is right.
"""

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from sidecar.engines.probe.where import unix_path


_BY_ERRNO: Mapping[int, str] = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the network",
}


def why_unreached(error: Exception, url: str, *, was_reached: bool) -> str:
    """The reason in words, with the address. `url`: as the config states it. `was_reached`: an earlier check was answered there, so that the address is right."""
    path = unix_path(url)
    if path and (fault := unix_fault(path)) is not None:
        return fault
    what, question = _what(error)
    return f"{what} at {url}" if was_reached else f"{what} at {url}; {question}"


def _what(error: Exception) -> tuple[str, str]:
    """The failure, and the question that finds its commonest mistake."""
    question = "is engine.url right?"
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "the name does not resolve", question
        case aiohttp.ClientSSLError():
            return (
                "TLS failed",
                f"{question} Does the engine speak TLS there, with a certificate that this machine trusts?",
            )
        case OSError(errno=int(number)) if number in _BY_ERRNO:
            return _BY_ERRNO[number], question
        case aiohttp.ServerDisconnectedError() | ConnectionResetError() | OSError(errno=errno.ECONNRESET | errno.EPIPE):
            return "connection closed without an answer", f"{question} Does the engine expect TLS there?"
        case aiohttp.ClientResponseError():
            return "an answer that is no HTTP", f"{question} Does another program, or TLS, answer there?"
        case TimeoutError():
            return "no answer in time", question
        case _:
            return str(error) or type(error).__name__, question


def unix_fault(path: str) -> str | None:
    """The reason in words why nothing can be reached at this path; None if a socket is there that may be written to."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return f"there is no file {path}: the engine has not made its socket yet, or the volume is not mounted here"
    except PermissionError:
        return f"this user may not look into the directory of {path}"
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"
    if not stat.S_ISSOCK(mode):
        return f"{path} is not a socket"
    if not os.access(path, os.W_OK):
        return f"this user may not write to the socket {path} (connecting needs that): let the engine make it for the group"
    return None
