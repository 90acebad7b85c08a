"""The end of a pod with a sidecar: what of its grace is for which.

Kubernetes gives `terminationGracePeriodSeconds` to all of it: the preStop hook of the engine's container runs first, then the container gets SIGTERM, and the
native sidecar after it (killContainer in pkg/kubelet/kuberuntime/kuberuntime_container.go of 1.29). So a hook of the engine's own runs as it did,
ours behind it waits for the drain, and the reserve of deploy/base is for what comes after. The engine's own time to shut down takes
nothing more: nothing is in flight when the drain has ended. A grace that the pod states is never changed, but where no word says how long
the hook that was there takes: it has all of that grace then, and the drain has as much again.
"""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from sidecar.commands.inject.engine_in_pod import HOOKS, SHELLS, UnclearError
from sidecar.commands.inject.manifest_text import Object
from sidecar.config.schema import ShutdownConfig
from sidecar.config.section import Limits


_USUAL_GRACE_SECONDS = 30
"""Kubernetes' default."""
_MOST_SECONDS = next(
    int(each.le)
    for each in get_type_hints(ShutdownConfig, include_extras=True)["grace_seconds"].__metadata__
    if isinstance(each, Limits) and each.le
)
_ANSWERS_SECONDS = 5
"""The hook waits for so long behind the drain's end, for the answer."""
_UNITS_OF_SLEEP = {"": 1, "s": 1, "m": 60, "h": 3600}
_AT_ONCE = ("echo", "printf", "true", ":", "kill", "pkill", "touch", "date", "sync", "exit")
"""Commands that take no time."""


@dataclass(frozen=True, slots=True)
class Stop:
    """`grace_seconds`: of the pod. `drain_seconds`: from the sidecar's first second of it. `command`: of the hook; empty: it stays as it is."""

    grace_seconds: int
    drain_seconds: int
    command: list[str]
    notes: list[str]


def stop_of(spec: Object, container: Object, tool: str, shipped_grace_seconds: int, shipped: Mapping[str, Any]) -> Stop:
    """The times of this pod. `tool`: a name of HOOKS, "" where none is known. `shipped`: the section `shutdown` of deploy/base.

    Raises UnclearError where the stated grace is too short, or longer than a drain may be.
    """
    stated = spec.get("terminationGracePeriodSeconds")
    before = (container.get("lifecycle") or {}).get("preStop")
    first = _as_command(before) if before else []
    comes = HOOKS[tool or "none"] if first is not None else HOOKS["none"]
    takes = _takes_seconds(first or []) if comes(0) else 0
    notes = []
    reserve_seconds = shipped_grace_seconds - shipped["grace_seconds"]
    if takes is None:
        takes = _USUAL_GRACE_SECONDS if stated is None else stated
        grace = takes + (shipped_grace_seconds if stated is None else stated)
        notes.append(
            f"its preStop hook may take {takes} s, so the pod's grace becomes {grace} s: the drain comes behind it"
        )
    else:
        grace = takes + shipped_grace_seconds if stated is None else stated
    drain, least = grace - takes - reserve_seconds, shipped["lame_duck_seconds"]
    if not least < drain <= _MOST_SECONDS:
        behind = f" and its preStop hook takes {takes} s" if takes else ""
        raise UnclearError(
            f"its terminationGracePeriodSeconds is {stated}{behind}, which leaves {drain} s for the drain: more than {least} and at most {_MOST_SECONDS} are"
            f" needed, so state {takes + reserve_seconds + least + 1} to {takes + reserve_seconds + _MOST_SECONDS}"
        )
    if first is None:
        notes.append("its preStop hook is a request and stays as it is; the sidecar drains from SIGTERM on")
    elif not tool:
        notes.append("no drain hook: whether the engine's image has curl or python3 is not known; --hook=curl adds one")
    ours = comes(drain + _ANSWERS_SECONDS)
    return Stop(grace, drain, _both(first, ours) if first and ours else ours, notes)


def _as_command(hook: Mapping[str, Any]) -> list[str] | None:
    if "exec" in hook:
        return [str(word) for word in (hook["exec"] or {}).get("command") or ()]
    if "sleep" in hook:
        return ["sleep", str((hook["sleep"] or {}).get("seconds", 0))]
    return None


def _takes_seconds(words: Sequence[str]) -> int | None:
    """The longest that a hook takes, in whole seconds; None where its words do not say it."""
    if not words:
        return 0
    name, *rest = (words[0].rsplit("/", 1)[-1], *words[1:])
    if name in SHELLS and len(rest) > 1 and re.fullmatch(r"-\w*c", rest[0]):
        try:
            each = [_takes_seconds(shlex.split(text)) for text in re.split(r"&&|\|\||[;\n]", rest[1])]
        except ValueError:  # a quote that is cut
            return None
        return None if None in each else sum(known for known in each if known)
    if name == "exec":
        return _takes_seconds(rest)
    if name in _AT_ONCE:
        return 0
    parts = [re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", word) for word in (rest[:1] if name == "timeout" else rest)]
    if name not in ("sleep", "timeout") or not parts or None in parts:
        return None
    return math.ceil(sum(float(part[1]) * _UNITS_OF_SLEEP[part[2]] for part in parts if part))


def _both(first: Sequence[str], then: Sequence[str]) -> list[str]:
    """One command that runs two, the second whatever the first gives: the words of both stay words, and no shell reads them again."""
    many = len(first)
    script = (
        f'drain() {{ shift {many}; "$@"; }}; ' + " ".join(f'"${{{at}}}"' for at in range(1, many + 1)) + '; drain "$@"'
    )
    return ["sh", "-c", script, "sh", *first, *then]
