"""The host names under which the admin side answers, against DNS rebinding.

A web page can have its own name point at an address of the reader's machine, where a `kubectl port-forward` listens, and then read
what is there as its own. The browser still sends the page's name as `Host`: a request under a name that cannot be registered in
the public DNS is not the request of such a page. Pure. It refuses to know routes and what a refusal looks like (`access.py`).
"""

import ipaddress
import re
from collections.abc import Iterable


ADMIN_SERVICE = "llm-phase-sidecar"
"""The Service of the admin ports, to which links of pages and dashboards lead."""
_HOST_FIELD = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]*)?", re.ASCII)
_UNDER_SVC = re.compile(re.escape(ADMIN_SERVICE) + r"\.[a-z0-9-]+\.svc(?:\.cluster\.local)?", re.ASCII)
"""The admin Service in any namespace: no name below `svc` or `local` can be had in the public DNS."""


class Hosts:
    """The names of one process. `own`: its host name.

    `llm-phase-sidecar.NAMESPACE` does not pass: `.dev` and `.prod` are domains of the public DNS.
    """

    def __init__(self, own: str = "") -> None:
        self._own = frozenset(_plain(name) for name in (own, "localhost", ADMIN_SERVICE) if name)

    def pass_for(self, host: str, allowed: Iterable[str] = ()) -> bool:
        """Whether a request with this `Host` may be answered: an IP address, a name of this process, or one of `allowed`.

        Case, a port and a dot at the end do not matter.
        """
        parts = _HOST_FIELD.fullmatch(host.lower())
        if parts is None:
            return False
        if parts["six"] is not None:
            return _is_address(parts["six"], ipaddress.IPv6Address)
        name = _plain(parts["name"])
        return (
            name in self._own
            or name.endswith(".localhost")
            or _UNDER_SVC.fullmatch(name) is not None
            or _is_address(name, ipaddress.IPv4Address)
            or any(name == _plain(each) for each in allowed)
        )


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(text: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True
