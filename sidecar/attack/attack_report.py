"""The outcome of `sidecar attack`: verdicts by hop and family, as text for a person or as JSON for a script.

Knows verdicts and columns; attacks nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sidecar.config.folding import folded


class Verdict(StrEnum):
    """The outcome of one family of attacks on one hop."""

    PASS = "pass"  # noqa: S105  no password
    FAIL = "fail"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class FamilyVerdict:
    """One family of attacks on one hop. `reason` is one line; empty where all is well."""

    family: str
    verdict: Verdict
    attacks: int
    faults: int = 0
    reason: str = ""


@dataclass(slots=True)
class HopReport:
    """All verdicts on one hop."""

    name: str
    address: str
    families: list[FamilyVerdict] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """No family failed."""
        return all(one.verdict is not Verdict.FAIL for one in self.families)


def report_document(hops: Sequence[HopReport], *, recorded: bool, seed: int) -> dict[str, Any]:
    """The report as JSON. `recorded`: an origin behind the hops kept what it got."""
    return {
        "passed": all(hop.passed for hop in hops),
        "origin_recorded": recorded,
        "seed": seed,
        "hops": [
            {
                "name": hop.name,
                "address": hop.address,
                "passed": hop.passed,
                "families": [
                    {
                        "family": one.family,
                        "verdict": str(one.verdict),
                        "attacks": one.attacks,
                        "faults": one.faults,
                        "reason": one.reason,
                    }
                    for one in hop.families
                ],
            }
            for hop in hops
        ],
    }


def report_text(hops: Sequence[HopReport], *, recorded: bool, columns: int) -> str:
    """The report for a person: one line a family, with the reason where it failed."""
    lines: list[str] = []
    for hop in hops:
        lines += [f"hop {hop.name} ({hop.address}): {'pass' if hop.passed else 'FAIL'}"]
        width = max((len(one.family) for one in hop.families), default=0)
        for one in hop.families:
            said = str(one.verdict).upper() if one.verdict is Verdict.FAIL else str(one.verdict)
            counted = f"{one.faults} of {one.attacks}: " if one.faults else f"{one.attacks} " if one.attacks else ""
            unit = "" if one.faults or not one.attacks else "attacks" if one.attacks > 1 else "attack"
            words = f"{counted}{unit}{': ' if unit and one.reason else ''}{one.reason}"
            lines += folded(words, columns, f"  {one.family:<{width}}  {said:<10}  ")
        lines.append("")
    if not recorded:
        words = (
            "Judged by the answers alone. Whether a request was smuggled or split shows only behind the hops: give "
            "--origin-listen, and point the last hop's upstream there."
        )
        lines += [*folded(words, columns), ""]
    return "\n".join(lines)
