"""The rows of the tables: which proxies `make bench` compares, and which `make bench-full` adds. Starts nothing."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.peers import further, proxies
from bench.peers.proxies import Proxy


MANY = "max_in_flight: 10000"
"""The one key of the sidecar that is not as shipped, in `make bench-full`: 5,000 streams are more than its 1,024."""


def rows(beside: Path | None, *, full: bool) -> list[Proxy]:
    """All rows, in the order of the tables."""
    many = MANY if full else ""
    found = [
        Proxy("direct", "direct, no proxy", proxies.direct),
        Proxy("nginx", "nginx", proxies.nginx),
        Proxy("vllm-router", "vllm-router", proxies.vllm_router),
        Proxy("sidecar-silent", "sidecar, usage silent", partial(proxies.sidecar, usage=False, further=many)),
        Proxy("sidecar", "sidecar, usage asked and cut", partial(proxies.sidecar, usage=True, further=many)),
    ]
    if beside is not None:
        for key, words, usage in (("beside-silent", "usage silent", False), ("beside", "usage asked and cut", True)):
            start = partial(proxies.sidecar, usage=usage, checkout=beside, further=many)
            found.append(Proxy(key, f"sidecar beside, {words}", start))
    if full:
        found[2:2] = [
            Proxy("haproxy", "HAProxy", further.haproxy),
            Proxy("envoy", "Envoy", further.envoy),
            Proxy("litellm", "LiteLLM", further.litellm),
            Proxy("sglang-router", "sglang-router", further.sglang_router),
        ]
    return found


def chosen(among: Sequence[Proxy], only: str) -> list[Proxy]:
    """The rows that `--only` names; `sidecar` names both of its rows. All of them if it is empty."""
    names = [name for name in only.split(",") if name]
    return [
        row for row in among if not names or any(row.key == name or row.key.startswith(f"{name}-") for name in names)
    ]
