"""The names that a team gives to the two severities of alerts: a page wakes a person, a ticket waits for the day.

It knows the label `severity` and no rule. Rules, routes, inhibition, messages and dashboards take the names from here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Severities:
    """A value of the label `severity` each; the fields are named as the shipped files name them."""

    page: str = "page"
    ticket: str = "ticket"

    def named(self, severity: str) -> str:
        """The team's name of a shipped severity. `none`, the Watchdog's, stays."""
        return {"page": self.page, "ticket": self.ticket}.get(severity, severity)


SHIPPED_SEVERITIES = Severities()
NO_SEVERITY = "none"
"""The Watchdog's: its receiver must raise the alarm when it falls silent, so it is neither."""
