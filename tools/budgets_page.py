"""Writes docs/budgets.md from the kinds of budgets: what is counted, the limit in the shipped pod, what happens beyond.

Knows how a kind is written as a row. The prose around the table stands here too, so that the page has one source.
"""

from pathlib import Path

import yaml

from sidecar.budgets.budgets import (
    KEPT_FILES,
    LEAST_FILES,
    LEAST_HELD_BYTES,
    LEAST_LIMIT,
    LEAST_MEMORY_BYTES,
    Kind,
    limits_of,
)
from sidecar.config.schema import ProxyConfig
from sidecar.observe.settlement import SPAN_KEPT_SECONDS
from tools.markdown import table
from tools.work_list import WORK


KUBERNETES = Path(__file__).parents[1] / "deploy/base/pod.yaml"
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_MANY_FILES = 1 << 20

_BEFORE = """# Budgets

<!-- Written by `make docs`; a test holds the page to the code. -->

What one process may hold at once, and what happens to more. The limits are derived at the start from the memory limit of the
process's control group (version 1 or 2; without one, the machine's memory) and from its hard limit of open files, to which
the soft one is raised. A limit that the config states under `proxy` holds where memory and files allow it.

Use, limit and what found no room are on the status page, and in `llm_sidecar_budget_used`, `llm_sidecar_budget_limit` and
`llm_sidecar_budget_exceeded_total`, by the label `budget`. No failure by a budget is one of the engine's: its outcome is
`rejected` or `client_cancelled`, and its reason stands in [errors.md](errors.md).

"""

_AFTER = f"""
The limits are those of `deploy/base/pod.yaml` with the config's defaults. One eighth of the memory is for bytes held, one
eighth for connections, one quarter for requests whose clients do not read, and at most one sixteenth for rows of closed requests. With few files, connections and requests are
fewer too: {KEPT_FILES} files are kept for the admin side, and each request in flight has a connection to the engine beside its
client's. No derived limit of connections, uploads or requests is below {LEAST_LIMIT}, and `held_bytes` is at least
{LEAST_HELD_BYTES >> 20} MiB. The line `budgets` of the log says at the start what was given and what was derived from it. With fewer than {LEAST_FILES} files
`serve` does not start (`too_few_files`, exit code 1), because it would answer every client 503. With less than {LEAST_MEMORY_BYTES >> 20} MiB of
memory it starts with the smallest limits and warns (`little_memory`): the kernel may end it under load. `sidecar check` tells
nothing of either, because it often runs on another machine.

These things are not in `held_bytes`, because each request has a bound of its own for them: the bytes of an answer that its client
has not taken (`proxy.client_buffer_bytes`), and an event of a stream that has not ended (`proxy.max_event_bytes`; of a longer one
only the outline is held, as of a body above `proxy.look_in_bytes`: about 64 KiB at most). All together they are bounded by the number of requests. A config that raises these two keys raises the memory that
`requests` stands for.

After a burst the process gives its memory back: at once what it held, {SPAN_KEPT_SECONDS:.0f} s after the last request what it
remembered of each. Pages on which Python keeps something else stay: a minute later the process has about 1.5 times what it had before (1.62
times was the most on any machine). Where that matters more than its CPU, start it with `PYTHONMALLOC=malloc` in its
environment: it then has 1.1 times what it had before, and a request costs 3 to 5 % more CPU (glibc 2.36, measured by hand).

## Time

An unfinished upload has a floor and an end: `proxy.upload_min_bytes_per_second`, `proxy.upload_timeout_seconds`,
`proxy.body_gap_timeout_seconds`. Time in which the engine takes nothing is not counted. A client that leaves bytes waiting
here must take them at `proxy.client_min_bytes_per_second`; a stream whose engine is slow has no floor. A websocket ends after
`proxy.tunnel_idle_timeout_seconds` without a byte, and after `proxy.tunnel_total_timeout_seconds` in any case.

## A share per client address

`proxy.max_connections_per_peer` is off by default: behind an ingress all clients have one address. Set it where clients come
directly.
"""

_WORK = """
## All work that can be caused

What a request, an answer, a span, a scrape or a file can make this process do, each with its limit. Budgets are those of the first table. A test
finds each call that starts a thread, a task, a process or a decompressor, and fails for one that stands on no line here.

"""
_WORK_HEAD = ("what causes it", "what it takes", "limit", "what happens at the limit", "what tells it")


def page() -> str:
    """The whole page."""
    limits = limits_of(shipped_memory_bytes(), _MANY_FILES, ProxyConfig())
    head = ("`budget`", "what is counted", "limit in the shipped pod", "what happens beyond")
    rows = ((f"`{kind.label}`", kind.counts, _limit(kind, limits[kind]), kind.beyond) for kind in Kind)
    return _BEFORE + table(head, rows) + _AFTER + _WORK + table(_WORK_HEAD, (work[:5] for work in WORK))


def shipped_memory_bytes() -> int:
    """The sidecar's memory limit in the shipped manifest, in bytes."""
    for document in yaml.safe_load_all(KUBERNETES.read_text("utf-8")):
        if document["kind"] == "Deployment":
            (sidecar,) = document["spec"]["template"]["spec"]["initContainers"]
            stated: str = sidecar["resources"]["limits"]["memory"]
            return int(stated[:-2]) * _UNITS[stated[-2:]]
    raise ValueError(f"no Deployment in {KUBERNETES}")


def _limit(kind: Kind, limit: int) -> str:
    if kind is Kind.FILES:
        return f"the hard limit less {KEPT_FILES}"
    return f"{limit >> 20} MiB" if kind.unit == "bytes" else f"{limit:,} {kind.unit}"
