"""The owner of a stall, as far as the outputs of the one stream show it: the client, a hop, or neither. Pure.

A stream stood still: the longest gap between its outputs is beyond a threshold. The stream shows three things about it.

- The client: between the same two outputs, it did not take what it got. That time is no part of the gap, but an engine that was held
  up by the client may need time to go on. If the pause is as long as the gap, the gap is the client's.
- Something on the way: the engine had made the tokens, and they came together when the gap ended. The read that ended it then holds
  what the stream usually has in a good part of the gap.
- A slow pace: the gap is not much longer than the stream's others. Then nothing stood still; each output takes long.

It knows the gaps of one stream. It refuses to know other streams and what broke: what none of these explains may be a pause of the
whole engine or of this stream alone (`root/weigh.py`).
"""

from typing import NamedTuple

from sidecar.objectives.attribution import Blame
from sidecar.objectives.judge import TokenDeadlines


HELD_SHARE = 0.5
"""Share of the output of a usual time as long as the gap, from which on the read that ended it shows that it was held back."""
STANDS_OUT = 5.0
"""So many times its usual gap a stream stands still for, at least; below it, its pace is slow. Steps with long prompts in them take twice
or three times as long as others."""
FEWEST_OTHERS = 4
"""Outputs beside the gap from which on a stream has a usual gap."""


class Stall(NamedTuple):
    """The longest gap of a stream, and all that the stream shows of it."""

    began_at: float
    ended_at: float
    """Now, if it lasts."""
    paused: bool = False
    """The client did not take what it got, for as long as the gap."""
    held: bool = False
    """Output came together when it ended."""
    slow: bool = False
    """It is about as long as the stream's other gaps."""
    before_second: bool = False
    """It lies between the first output and the second, as where the KV cache is handed from one worker to another."""


def stall_of(deadlines: TokenDeadlines, at: float) -> Stall:
    """The longest gap of a stream until now."""
    began_at, ended_at = deadlines.longest_gap(at)
    others_seconds, others = deadlines.other_gaps(at)
    lasts = ended_at > deadlines.longest_until or deadlines.longest_seconds == 0.0
    held = slow = False
    if others >= FEWEST_OTHERS and others_seconds > 0.0:
        usual_seconds, gap_seconds = others_seconds / others, ended_at - began_at
        slow = gap_seconds < STANDS_OUT * usual_seconds
        held = not lasts and deadlines.longest_events * usual_seconds >= HELD_SHARE * gap_seconds
    paused_seconds = 0.0 if lasts else deadlines.longest_paused_seconds
    paused = paused_seconds > 0.0 and paused_seconds >= ended_at - began_at
    before = deadlines.deadlines if lasts else deadlines.longest_after_events
    return Stall(began_at, ended_at, paused, held, slow, before_second=before == 1)


def blame_of_stall(stall: Stall) -> Blame:
    """The vote of a stream that stood still and ended well: where its output was while nothing came."""
    return Blame.STREAM if stall.paused or stall.held else Blame.DECODE
