"""The labels of alerts as they leave Prometheus: `alert_relabel_configs`, carried out as `model/relabel` of Prometheus 3 does. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.commands.doctor.gathered import UNKNOWN_FORM, Read
from sidecar.commands.doctor.route_walk import fits


def relabelling(read: Read) -> Sequence[Mapping[str, Any]]:
    """The steps of the way to the first Alertmanager; empty where Prometheus shows no config."""
    try:
        alerting = read.prometheus_config.get("alerting") or {}
    except UNKNOWN_FORM:
        return ()
    ways = (alerting, *(alerting.get("alertmanagers") or ())[:1])
    return [step for way in ways for step in way.get("alert_relabel_configs") or ()]


def relabelled(labels: Mapping[str, str], steps: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """The labels behind all steps; None: the alert is dropped. Raises ValueError for a step that is not known here."""
    found = dict(labels)
    for step in steps:
        action, target = str(step.get("action", "replace")).lower(), str(step.get("target_label", ""))
        regex, to = str(step.get("regex", "(.*)")), str(step.get("replacement", "$1"))
        value = str(step.get("separator", ";")).join(found.get(name, "") for name in step.get("source_labels") or ())
        match = fits(regex, value)
        if action in ("keep", "drop", "keepequal", "dropequal"):
            holds = found.get(target, "") == value if action.endswith("equal") else match is not None
            if holds == action.startswith("drop"):
                return None
        elif action in ("labeldrop", "labelkeep"):
            found = {name: of for name, of in found.items() if (fits(regex, name) is None) == (action == "labeldrop")}
        elif action == "labelmap":
            found |= {_filled(to, one): of for name, of in found.items() if (one := fits(regex, name))}
        elif action in ("lowercase", "uppercase"):
            found[target] = value.lower() if action == "lowercase" else value.upper()
        elif action == "hashmod":
            digest = hashlib.md5(value.encode(), usedforsecurity=False).digest()
            found[target] = str(int.from_bytes(digest[8:], "big") % int(step["modulus"]))
        elif action != "replace":
            raise ValueError(f"alert_relabel_configs have the action {action}")
        elif match:
            found[_filled(target, match)] = _filled(to, match)
    return {name: of for name, of in found.items() if of}


def _filled(text: str, match: re.Match[str]) -> str:
    """The text with its references to groups, such as `$1` and `${name}`, filled in."""
    return match.expand(re.sub(r"\$(?:\{(\w+)\}|(\w+))", r"\\g<\1\2>", text.replace("\\", r"\\")))
