"""Every set of kinds of notification that a team can have, and the flags of `sidecar export` for each.

It knows the kinds that the command offers. It knows nothing of the files that are written.
"""

from itertools import combinations

from sidecar.commands.export.parameters import RECEIVERS


_OLD = RECEIVERS[:3]
"""Kinds that the shipped routes have too."""
SETS = [
    *(kinds for count in range(1, len(_OLD) + 1) for kinds in combinations(_OLD, count)),
    *(("opsgenie",), ("teams",), RECEIVERS),
]
"""Sets of kinds that a team can have: every one of the shipped kinds, and each other kind alone and beside all."""
NEEDS_NEWER = "teams"
"""Alertmanager 0.25 refuses it."""
SHIPPED_AND_SETS = {"shipped": (), **{"+".join(kinds): kinds for kinds in SETS}}
"""The same by name, after the shipped routes: those without the flag, with a receiver for each phase."""
URL = "https://hooks.example.org/llm"


def flags_of(kinds: tuple[str, ...]) -> list[str]:
    """The flags for these kinds; none for the shipped routes."""
    flags = [f"--receivers={','.join(kinds)}"] if kinds else []
    flags += ["--alertmanager=0.28"] if NEEDS_NEWER in kinds else []
    return flags + ([f"--webhook-url={URL}"] if "webhook" in kinds else [])
