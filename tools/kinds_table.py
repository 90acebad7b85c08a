"""The table of docs/inject.md: every kind that `sidecar inject` puts a sidecar into, from `sidecar/commands/inject/workload_kinds.py`."""

from sidecar.commands.inject.workload_kinds import DYNAMO, POD_KINDS, Led
from tools.markdown import Block, table


KINDS_HEAD = ("kind", "API group", "traffic comes by", "its pods are made anew")
_BY = {each: each.value for each in Led} | {Led.BY_ADDRESS: f"{Led.BY_SERVICES.value}, or {Led.BY_ADDRESS.value}"}


def block() -> Block:
    """One row per kind."""
    rows = ((f"`{one.kind}`", one.group or "core", _BY[one.led], one.renewed) for one in (*POD_KINDS, DYNAMO))
    return Block("## Every kind", table(KINDS_HEAD, rows))
