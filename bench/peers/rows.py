"""The rows of the tables: which proxies `make bench` compares, and which `make bench-full` adds. Starts nothing."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from bench.checkout import REPOSITORY
from bench.peers import further, proxies
from bench.peers.proxies import Proxy, Running


MANY = "max_in_flight: 10000"
"""The one key of the sidecar that is not as shipped, in `make bench-full`: 5,000 streams are more than its 1,024."""


def rows(beside: Path | None, *, full: bool, pure: bool = False) -> list[Proxy]:
    """All rows, in the order of the tables."""
    many = MANY if full else ""
    found = [
        Proxy("direct", "direct, no proxy", proxies.direct),
        Proxy("nginx", "nginx", proxies.nginx),
        Proxy("vllm-router", "vllm-router", proxies.vllm_router),
        *sidecars("sidecar", "sidecar", partial(proxies.sidecar, tree=REPOSITORY, further=many)),
    ]
    if full or pure:
        start = partial(proxies.sidecar, tree=REPOSITORY, pure=True, further=many)
        found += sidecars("pure", "sidecar in pure Python", start)
    if beside is not None:
        found += sidecars("beside", "sidecar beside", partial(proxies.sidecar, tree=beside, further=many))
    if full:
        found[2:2] = [
            Proxy("haproxy", "HAProxy", further.haproxy),
            Proxy("envoy", "Envoy", further.envoy),
            Proxy("litellm", "LiteLLM", further.litellm),
            Proxy("sglang-router", "sglang-router", further.sglang_router),
        ]
    return found


def sidecars(key: str, title: str, start: Callable[..., AbstractContextManager[Running]]) -> list[Proxy]:
    """The two rows of one build: with usage as the client asked for it, and with usage asked for and cut out."""
    return [
        Proxy(f"{key}-silent", f"{title}, usage silent", partial(start, usage=False)),
        Proxy(key, f"{title}, usage asked and cut", partial(start, usage=True)),
    ]


def chosen(among: Sequence[Proxy], only: str) -> list[Proxy]:
    """The rows that `--only` names; `sidecar` names both of its rows. All of them if it is empty."""
    names = [name for name in only.split(",") if name]
    return [
        row for row in among if not names or any(row.key == name or row.key.startswith(f"{name}-") for name in names)
    ]
