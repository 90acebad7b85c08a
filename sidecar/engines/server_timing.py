"""The times of one request in a `Server-Timing` list (W3C Server Timing, section 2): text in, report out. Pure.

Each entry is a name and its duration in milliseconds, `server_queue;dur=1.25, server_ttft;dur=8.5`, in the head of a whole answer or
in an event of a stream. Any server, and any hop before it, may write such a list, and name its times as it likes. So it is a report
only if it states a queue **and** either a prefill or the time to the first token, which is the queue and the prefill:

- one of these two alone would leave it open which part of the TTFT it is;
- a name that is stated twice belongs to several requests of the engine, or to several hops: the list is no report;
- a parameter that is not the duration is passed over (`desc="..."`), and so is an entry of another name (`disagg_queue`, `db`).

Who may be asked for such a list, and whether it is believed, is not known here: the engine's file and the config say the one
(`engine.timing_header`), and the ledger holds the numbers against the wire.
"""

import re

from sidecar.engines.durations import MILLISECONDS, between, seconds_of
from sidecar.ledger.report import EngineReport


LONGEST_LIST_CHARACTERS = 4096
"""TensorRT-LLM's has at most 200; a proxy's own entries may stand beside."""
_ENTRY_NAME = re.compile(r"\s*+([!#$%&'*+.^_`|~0-9A-Za-z-]++)")
_PARAMETER = re.compile(r'\s*+;\s*+([\w-]++)\s*+=\s*+("[^"]*+"|[^\s;,"]*+)')
_ENTRY_END = re.compile(r"\s*+(?:,|\Z)")
"""No pattern gives back what it has matched, so the time that a list takes grows with its length alone."""
_MILLISECONDS_OF = re.compile(r'"?([0-9]{1,15}(?:\.[0-9]{1,9})?)"?', re.ASCII)
_OF_THE_SERVER = "server_"
"""TensorRT-LLM's word before its own names; those of its disaggregated front end and of the workers behind that have other words."""
_STATED_TIMES = frozenset(("queue", "prefill", "ttft", "decode", "e2e", "kv_transfer"))


def report_in_timing(stated: object) -> EngineReport | None:
    """The report in the text of one list; None where it states not both of queue and prefill. Never raises."""
    durations = _durations(stated) if isinstance(stated, str) and len(stated) <= LONGEST_LIST_CHARACTERS else None
    if durations is None or "queue" not in durations:
        return None
    queue, first_token = durations["queue"], durations.get("ttft")
    prefill = durations.get("prefill", between(queue, first_token))
    if prefill is None:
        return None
    begins = queue + prefill if first_token is None else first_token
    decode = durations.get("decode", between(begins, durations.get("e2e")))
    transfer = durations.get("kv_transfer")
    if transfer:
        # The first token of a worker that received its cache is not the prompt's, and its wait was not only the queue.
        return EngineReport(decode_seconds=decode, kv_transfer_seconds=transfer)
    return EngineReport(queue, prefill, decode)


def _durations(text: str) -> dict[str, float] | None:
    """Name to seconds, of the names that are read; None where the text is no such list, or states one of them twice."""
    found: dict[str, float] = {}
    at = 0
    while at < len(text):
        entry = _entry(text, at)
        if entry is None:
            return None
        stated_name, seconds, at = entry
        name = stated_name.lower().removeprefix(_OF_THE_SERVER)
        if name not in _STATED_TIMES:
            continue
        if name in found or seconds is None:
            return None
        found[name] = seconds
    return found


def _entry(text: str, at: int) -> tuple[str, float | None, int] | None:
    """The name and the seconds of the entry that begins here, by its first `dur`, and where the next one begins; None if it is none."""
    name = _ENTRY_NAME.match(text, at)
    if name is None:
        return None
    at, stated = name.end(), None
    while (parameter := _PARAMETER.match(text, at)) is not None:
        at = parameter.end()
        if stated is None and parameter[1].lower() == "dur":
            stated = parameter[2]
    end, duration = _ENTRY_END.match(text, at), _MILLISECONDS_OF.fullmatch(stated or "")
    if end is None:
        return None
    return name[1], None if duration is None else seconds_of(float(duration[1]), MILLISECONDS), end.end()
