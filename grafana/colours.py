"""The colours of the dashboards, each with one meaning: phases have those of `PHASE_COLOURS`, judgement is in red alone.

A colour that names a phase judges nothing, and one that judges names no phase: so a slow decode is not painted in the colour of
"fine". Everything else, such as lanes and pods, takes Grafana's colour of its name, which is the same on every dashboard. Refuses
to know panels.
"""

from sidecar.ledger.account import Phase


STACKED = tuple(phase.value for phase in Phase)
"""Phases of which a request's time is made, from the bottom of the stack up."""
FINE, WARN, RED = "transparent", "light-red", "dark-red"
"""Judgement, by Grafana's names: nothing to see, soon, now. What is fine or unknown has no colour."""
CALM = "#4A5260"
"""A state that is as it should be, where a bar has to be drawn."""
NEUTRAL = "#CCCCDC"
"""A change that is no fault: a deploy, a reload of the config."""
