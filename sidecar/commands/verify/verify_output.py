"""The output of `sidecar verify`: a table for each address and the findings, or one JSON document that can be shown to others.

The document holds no key, no prompt, no text of an answer except the first words of one with another status than 200, and no address but where a hop names itself. Its form is `schema_version`: a key
is added without a new version, and none changes its meaning in one.
"""

import json
from collections.abc import Sequence
from typing import Any

from sidecar import __version__
from sidecar.commands.verify.arrivals import arrival
from sidecar.commands.verify.verify_findings import Evidence, Found, Probed, State, added_ttft
from sidecar.config.folding import folded
from sidecar.engines.probe.replies import Identity
from sidecar.engines.probe.state_names import PageTime


VERIFY_VERSION = 2


def verify_text(evidence: Evidence, found: Sequence[Found], columns: int) -> str:
    """One table for each address, then the findings, what differs first."""
    version = f" {evidence.version}" if evidence.version else ""
    lines = folded(
        f"{evidence.kind.title}{version}. Times in ms; `between` is the mean time between two events with output.",
        columns,
    )
    for place, probed in (("engine", evidence.engine), ("entry", evidence.entry)):
        if probed:
            lines += ["", *_table(place, probed)]
    order = (State.DIFFERS, State.UNKNOWN, State.UNTOLD, State.OK)
    width = max(len(one.name) for one in found)
    for one in sorted(found, key=lambda one: order.index(one.state)):
        head = f"{one.state:<8} {one.name:<{width}}  "
        lines += (
            ["", *folded(one.said, columns, head)] if one.state is State.DIFFERS else folded(one.said, columns, head)
        )
        lines += folded(f"-> {one.do}", columns, " " * len(head), " " * (len(head) + 3)) if one.do else []
    counts = ", ".join(f"{sum(one.state is state for one in found)} {state}" for state in order)
    return "\n".join((*lines, "", f"{counts}.", ""))


def _table(place: str, probed: Sequence[Probed]) -> list[str]:
    own = place == "engine"
    head = f"{place:<20}{'client':>8}{'':>16}{'reads/':>9}{'tokens':>7}" + (f"{'engine':>10}" if own else "")
    under = f"{'':<20}{'ttft':>8}{'between':>8}{'total':>8}{'events':>9}{'':>7}" + (
        f"{'q+prefill':>10}" if own else "  arrival"
    )
    rows = []
    for one in probed:
        answer, told = one.answer, one.told
        before = (
            told[PageTime.QUEUE] + told[PageTime.PREFILL] if {PageTime.QUEUE, PageTime.PREFILL} <= told.keys() else None
        )
        cells = (
            f"{one.name:<20}{_ms(answer.ttft_seconds):>8}{_ms(answer.between_seconds):>8}{_ms(answer.total_seconds):>8}"
            f"{f'{answer.reads}/{answer.marks.output_events}':>9}{'-' if answer.tokens is None else answer.tokens:>7}"
        )
        cells += f"{_ms(before):>10}" if own else f"  {arrival(answer)}"
        rows.append(cells.rstrip() if answer.good else f"{one.name:<20}  failed")
    return [head.rstrip(), under.rstrip(), *rows]


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.{1 if seconds < 1 else 0}f}"


def verify_json(evidence: Evidence, found: Sequence[Found], identity: Identity, model: str) -> str:
    """The document, for programs and for people who ask for it."""
    names = list(dict.fromkeys(one.name for one in (*evidence.engine, *evidence.entry)))
    interval = added_ttft(evidence)
    document = {
        "schema_version": VERIFY_VERSION,
        "sidecar_version": __version__,
        "engine": {
            "kind": evidence.kind.name,
            "version": evidence.version,
            "model": model,
            "quantization": identity.quantization,
            "gpu_type": identity.gpu_type,
        },
        "differs": [one.name for one in found if one.state is State.DIFFERS],
        "findings": [one._asdict() for one in found],
        "added_ttft_seconds": None if interval is None else {**interval._asdict(), "separable": interval.separable},
        "probes": [
            {"name": name, **{place: _probed(one) for place, one in _of(evidence, name).items()}} for name in names
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _of(evidence: Evidence, name: str) -> dict[str, Probed]:
    both = (("engine", evidence.engine), ("entry", evidence.entry))
    return {place: one for place, probed in both for one in probed if one.name == name}


def _probed(one: Probed) -> dict[str, Any]:
    answer, usage = one.answer, one.answer.marks.usage
    return {
        "asked": {"max_tokens": one.probe.max_tokens, "words": one.probe.words},
        "status": answer.status,
        "failure": answer.failure or None,
        "client_seconds": {
            "ttft": answer.ttft_seconds,
            "between_events": answer.between_seconds,
            "total": answer.total_seconds,
        },
        "stream": {
            "reads_with_output": answer.reads,
            "output_events": answer.marks.output_events,
            "arrival": arrival(answer),
            "finish": answer.finish,
            "usage": None if usage is None else usage._asdict(),
        },
        "fields": dict(answer.fields),
        "engine_seconds": one.told,
    }
