"""Each root in words: what broke, with its size, and why its misses may wait in another phase. Spelled once.

Pages, the diagnosis and the tables say it in these words. Knows causes and phases. Refuses to know numbers and who reads.
"""

from collections.abc import Mapping

from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import Cause, Unknown


SAYS: Mapping[str, str] = {
    Cause.LOAD: "more load arrives than usually",
    Cause.SLOTS: "requests wait for a free slot of the batch",
    Cause.KV: "requests wait for room in the KV cache",
    Cause.PREEMPTION: "running requests are preempted and computed again",
    Cause.LONGER_OUTPUTS: "answers are longer than usually",
    Cause.REJECTED: "requests are rejected (429, 503 or 529)",
    Cause.PREFILL_COST: "prefill costs more than usually",
    Cause.UNCACHED: "less of the prompts is cached than usually",
    Cause.PROMPT_MIX: "prompts are longer than usually",
    Cause.FRONT_END: "requests wait in front of the engine (tokeniser, API server or network)",
    Cause.DECODE_COST: "decode costs more than usually",
    Cause.KV_TRANSFER: "the KV cache moves slowly to the decode worker",
    Cause.HOP: "something between engine and sidecar collects tokens",
    Cause.CLIENT: "clients read slowly",
    Cause.DOWN: "the engine is down or refuses connections",
    Cause.RESTART: "the engine restarted and warms up",
    Cause.SILENCE: "the engine sends nothing, to some streams or to all",
    Cause.ERRORS: "the engine fails requests",
    Cause.SIDECAR_LATE: "the sidecar lacks CPU",
    Cause.SIDECAR_BUDGET: "a limit of the sidecar is reached",
    Unknown.YOUNG: "there is no baseline yet",
    Unknown.UNCLEAR: "the evidence is for nothing, or for several causes alike",
}
"""Each cause, and each reason for none, as a clause."""
SIZED: Mapping[str, tuple[str, str]] = {
    Cause.LOAD: ("load is ", "x the usual"),
    Cause.LONGER_OUTPUTS: ("answers are ", "x as long as usually"),
    Cause.PREFILL_COST: ("prefill costs ", "x the usual"),
    Cause.UNCACHED: ("uncached prompt tokens are ", "x the usual"),
    Cause.PROMPT_MIX: ("prompts are ", "x as long as usually"),
    Cause.DECODE_COST: ("decode costs ", "x the usual"),
}
"""Causes of which `llm_incident_size_ratio` gives the size: the words in front of it, and behind it."""
WAITS: Mapping[str, str] = {
    Blame.QUEUE: "where there is more work than room, every phase takes longer",
    Blame.PREFILL: "prompts that cost more hold up other requests and their tokens",
    Blame.FIRST_TOKEN: "what is late before the scheduler is counted there",
    Blame.DECODE: "slower tokens keep their places for longer",
    Blame.STREAM: "output that is held back is counted there",
    Blame.ENGINE: "what an engine loses is counted where it waited",
    SIDECAR: "what a late sidecar measures is counted there",
}
"""Phase of the root to the reason for which its misses may wait in another phase. `unattributed` claims no root."""
