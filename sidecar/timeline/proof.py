"""Whether an answer is whole by its API's own words. Pure.

HTTP framing says that all bytes of a message came. It does not say that the engine finished: an engine that gives up may still end
its chunks well, and one that dies ends a message without a length in the only way there is. APIs say it themselves, with two marks: a
**finish reason** for each choice, and an **end mark** behind the last event. Each dialect
says which of them its API has (`Dialect.end_marks`).

An answer can be denied at once: the engine says that it failed or was aborted (`StreamEvent.error`). A mark that is *missing* says
little by itself, because many servers leave one out. So each mark counts only where this engine is believed to set it (`belief.py`): it was
seen in several whole answers in a row of one API, one model and one version of the engine, streamed or not. From then on an answer without it
ended too early, whatever else in it could not be read, until as many in a row lack it: what answers then is another engine, behind the same
address. Until then the framing decides, and the answer counts as ok that was not proved. A server that never sends a mark is never blamed for it.

Knows marks and counts. Refuses to know events, bytes and metrics.
"""

from collections import OrderedDict
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from sidecar.timeline.belief import LEARNED_FROM, Belief


class EndMark(StrEnum):
    """A sign that an API sets at the end of a whole answer."""

    FINISH = "finish_reason"
    """Each choice with output has its reason: `finish_reason`, `stop_reason`, `done_reason`, or a final status."""
    END = "end_mark"
    """The last event of a stream: `[DONE]`, `message_stop`, `"done": true`."""


class ApiMarks(NamedTuple):
    """The marks that prove an answer of one API whole. Empty: the API has none, and framing is all there is."""

    streamed: tuple[EndMark, ...] = ()
    whole: tuple[EndMark, ...] = ()
    """The same for an answer that is not streamed."""


BOTH_MARKS = ApiMarks(streamed=(EndMark.FINISH, EndMark.END), whole=(EndMark.FINISH,))
NO_MARKS = ApiMarks()


class Proof(StrEnum):
    """The standing of an answer that ended well by its framing, or whose end mark came: `llm_answer_proofs_total{proof}`."""

    MARKED = "marked"
    """Its API's own words say that it is whole."""
    UNPROVED = "unproved"
    """No mark came, and this engine was not seen to set any."""
    FRAMING = "framing"
    """The API has no mark, or the answer was not read: its framing is all that is known."""
    CUT_BEHIND_MARK = "cut_behind_mark"
    """The end mark came, and the last bytes of the framing did not."""
    MISSING = "missing"
    """A mark is missing that this engine sets: the answer ended too early, and its outcome is engine_truncated."""


MOST_KINDS = 1024
"""Kinds of answers that are remembered: APIs times models times two. The one that was not seen for longest is forgotten."""


class AnswerKind(NamedTuple):
    """The answers that are expected to end alike."""

    api: str
    """The name of the dialect."""
    model: str
    streamed: bool


class Proofs:
    """The marks that the answers of one process were seen to set."""

    def __init__(self) -> None:
        self._seen: OrderedDict[AnswerKind, tuple[tuple[EndMark, Belief], ...]] = OrderedDict()
        """Whether each of its marks is set."""
        self._engine: tuple[str, str | None] | None = None

    def made_by(self, kind: str, version: str | None) -> None:
        """The engine that answers now. Another one, or another version, may end its answers in another way: what was seen is forgotten.
        Call it once the kind is known; an engine that only states its version later is the same one.
        """
        before, self._engine = self._engine, (kind, version)
        if before is not None and before not in (self._engine, (kind, None)):
            self._seen.clear()

    def judge(self, kind: AnswerKind, api: ApiMarks, set_marks: Collection[EndMark], read: bool = True) -> Proof:
        """The standing, by these marks, of an answer whose framing is whole and which nothing denies. `read`: all of it was read; else the
        marks that were seen teach nothing.
        """
        marks = api.streamed if kind.streamed else api.whole
        if not marks:
            return Proof.FRAMING
        seen = self._seen.get(kind)
        if seen is None:
            seen = self._seen[kind] = tuple((mark, Belief()) for mark in marks)
            if len(self._seen) > MOST_KINDS:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(kind)
        missing = False
        for mark, belief in seen:
            if belief.holds and mark not in set_marks:
                belief.seen(False)
                missing = True
        if missing:
            return Proof.MISSING
        if read:
            for mark, belief in seen:
                is_set = mark in set_marks
                if belief.row != (
                    LEARNED_FROM if is_set else -LEARNED_FROM
                ):  # else it says nothing new, as nearly always
                    belief.seen(is_set)
        return Proof.MARKED if set_marks else Proof.UNPROVED if read else Proof.FRAMING
