"""The reader of every API whose events and whole answers state the same things in fields of other names.

A row of `field_table.py` says which field carries what; here stands once what follows from it. A frame is one event or one whole answer. Its
choices are a list in it, or the frame is its only choice. It knows that

- a choice outputs if one of its fields says something, or if a text is there and empty, which is a token that detokenised to nothing;
- during prefill (`prompt_progress`) nothing is output;
- counts that stand in every frame are those so far: they are read where the answer ends;
- a frame in which nothing is found may be an error in another server's spelling.

It refuses to count tokens, because an event is not a token, and to read durations: those are handed on to the engine's file.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import GenericAlias
from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import (
    SEVERAL,
    at,
    count,
    decode,
    fields_stated,
    index_of,
    shape,
    states,
    strange,
    usage_of_timings,
)
from sidecar.timeline.events import (
    ERROR,
    EXTRAS,
    NO_USAGE,
    NOTHING,
    OUTPUT,
    REASONING,
    StreamEvent,
    Usage,
    together,
)
from sidecar.timeline.finish import Finish, denies, finish_of
from sidecar.timeline.proof import BOTH_MARKS, ApiMarks


_UNSET = msgspec.UNSET
_FIRST = [0]


@dataclass
class Fields:
    """One API: a dialect, as `Dialect` says. A field is named as in JSON; `a.b` stands in an object, `a:b` in something of any type."""

    name: str
    answer: tuple[str, ...] = ()
    """Fields of a choice that are generated output if they say something: neither null nor empty."""
    reasoning: tuple[str, ...] = ()
    """The same for reasoning."""
    within: tuple[str, ...] = ()
    """Objects of a choice, the first of which holds these fields; the choice itself holds them where none is there."""
    blank: str = ""
    """The one of `answer` that is output if it is an empty text, too ..."""
    framed_by: str = ""
    """... but not beside this field ..."""
    farewell: tuple[str, ...] = ()
    """... nor at the end of an answer, in a frame that states one of these."""
    text: str = ""
    """The field with the whole text of an answer, where `answer` does not name it or where an empty one is an answer."""
    generated: str = ""
    """The count of a choice's tokens so far. Where it is stated, it says whether the choice outputs."""
    choices: str = ""
    """The list of choices; empty: the frame is the only choice."""
    index: str = ""
    """The number of a choice; empty: there is one."""
    ends: tuple[str, ...] = ()
    """Fields of a choice that end it."""
    reason: str = ""
    """The word for its end, or an object with it in `type`."""
    receipts: tuple[str, ...] = ()
    """Words for the end of no more than a receipt."""
    says_done: bool = False
    """The end of choice 0 is the end mark of the stream."""
    prompt_tokens: tuple[str, ...] = ()
    """Fields of the frame; the first that states a count is read. So are the next three."""
    cached_tokens: tuple[str, ...] = ()
    completion_tokens: tuple[str, ...] = ()
    reasoning_tokens: tuple[str, ...] = ()
    counts_at_once: bool = False
    """Counts are read in every frame."""
    extras: tuple[str, ...] = ()
    """Fields that are handed on to `sidecar/engines/`."""
    extras_in: str = ""
    """The object that holds them: it is handed on with these alone, at the end."""
    lists: bool = False
    """A whole answer may be a list: one for each prompt or sample."""
    numbers: bool = False
    """... or a list of numbers, which are not read."""
    end_marks: ApiMarks = BOTH_MARKS
    has_usage_option: bool = False
    streams_unsaid: bool = False
    in_lines: bool = False
    model_in_path: bool = False
    token: Callable[..., object] | None = None

    def __post_init__(self) -> None:
        self._answer, self._reasoning, self._ends = _paths(self.answer), _paths(self.reasoning), _paths(self.ends)
        self._generated, self._reason = _path(self.generated), _path(self.reason)
        self._counts = (
            _paths(self.prompt_tokens),
            _paths(self.cached_tokens),
            _paths(self.completion_tokens),
            _paths(self.reasoning_tokens),
        )
        self._has_timings = self.extras == EXTRAS
        frame = self._frame()
        self._decoder = msgspec.json.Decoder(frame)
        self._decoder_of_several: Any = msgspec.json.Decoder(GenericAlias(list, (frame,))) if self.lists else None

    def _frame(self) -> Any:
        """The type of a frame: it has the fields of this row alone, so that nothing else of an answer is decoded."""
        words = [*self.answer, *self.reasoning, *filter(None, (self.blank, self.framed_by, self.text))]
        choice = [*self.ends, *([self.reason] if self.reason else ()), *words, *([self.index] if self.index else ())]
        choice += [f"{each}.{field}" for each in self.within for field in words]
        counts = [*self.prompt_tokens, *self.cached_tokens, *self.completion_tokens, *self.reasoning_tokens]
        own = [*self.farewell, *([self.generated] if self.generated else ()), *counts, "error"]
        own += [f"{self.extras_in}.{each}" if self.extras_in else each for each in self.extras]
        if not self.choices:
            return shape(self.name, [*choice, *own], {})
        one = shape(f"{self.name}_choice", [*choice, "error"], {})
        return shape(self.name, own, {self.choices: GenericAlias(list, (one | None,)) | None})

    # --- the two doors ---------------------------------------------------------------------------------------------------

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:  # noqa: ARG002  the interface
        """One event, or an error object. Raises UnreadableEvent."""
        return self._read(decode(self._decoder, data), data, whole=False)

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole answer, several of them, or an error object. Raises UnreadableEvent."""
        several = (self.lists or self.numbers) and body.lstrip()[:1] == SEVERAL
        if not several:
            return self._read(decode(self._decoder, body), body, whole=True)
        if self.numbers:
            return NOTHING
        answers = [self._read(each, None, whole=True) for each in decode(self._decoder_of_several, body)]
        return answers[0] if len(answers) == 1 else together(answers)

    # --- one frame -------------------------------------------------------------------------------------------------------

    def _read(self, frame: Any, data: bytes | None, *, whole: bool) -> StreamEvent:
        found = _Found()
        choices: Any = (frame,)
        if self.choices:
            choices = getattr(frame, self.choices) or ()
        elif frame.error and states(frame.error):
            return ERROR
        elif self.receipts and at(frame, self._reason) in self.receipts:
            return StreamEvent(accepted=True, done=True)
        for choice in choices:
            self._notice(choice, frame, found, whole=whole)
        if found.denied and not self.choices:
            return ERROR
        output, finished = found.output, found.finished
        counts = frame.usage if self.choices else _UNSET  # null is an answer to `include_usage`, too
        has_counts = isinstance(counts, msgspec.Struct) if self.choices else self.counts_at_once or bool(finished)
        usage = self._usage(frame) if has_counts else None
        extras = self._handed_on(frame, ended=bool(finished)) if self.extras_in else fields_stated(frame, self.extras)
        if extras is not None and self._has_timings and (usage is None or usage.completion_tokens is None):
            usage = usage_of_timings(frame.timings) or usage
        if extras is None and usage is None and not (choices if self.choices else output or finished):
            found.denied = data is not None and strange(data).error
        denied = found.denied or (bool(frame.error) and states(frame.error))
        done = self.says_done and 0 in finished
        reasons, wordless = bool(output) and not found.answered, 0 < found.wordless == len(output)
        if extras is None and usage is None and counts is _UNSET and not denied and not done:
            if not finished and (not output or output == _FIRST):  # a token costs no object
                return NOTHING if not output else REASONING if reasons else OUTPUT
            return StreamEvent(tuple(output), reasons, tuple(finished), found.finish, wordless)
        return StreamEvent(
            output=tuple(output),
            reasons=reasons,
            finished=tuple(finished),
            finish=found.finish,
            wordless=wordless,
            usage=usage,
            bare_usage=bool(self.choices) and has_counts and not choices and not denied,
            null_usage=counts is None,
            extras=extras,
            error=denied,
            done=done,
        )

    def _notice(self, choice: Any, frame: Any, found: "_Found", *, whole: bool) -> None:
        """One choice: its output, its end, its error."""
        if choice is None:
            return
        index = index_of(getattr(choice, self.index)) if self.index else 0
        words = choice
        for name in self.within:
            inner = getattr(choice, name)
            if inner is not None and inner is not _UNSET:
                words = inner
                break
        ended = _says(choice, self._ends) or (self.text in self.ends and getattr(words, self.text) == "")
        answers = _says(words, self._answer)
        says = answers or _says(words, self._reasoning)
        if self._outputs(frame, words, says=says, ended=ended, whole=whole):
            found.output.append(index)
            found.answered = found.answered or answers or not self._reasoning
            found.wordless += ended and not (getattr(words, self.text) if self.text else says)
        if choice.error and states(choice.error):
            found.denied = True
        if ended:
            found.finished.append(index)
            reason = at(choice, self._reason) if self._reason else None
            if isinstance(reason, dict):
                reason = reason.get("type")
            found.denied = found.denied or denies(reason)
            if reason and found.finish is None:
                found.finish = finish_of(reason)

    def _outputs(self, frame: Any, words: Any, *, says: bool, ended: bool, whole: bool) -> bool:
        """Whether the choice has generated output (design section 2)."""
        if self._has_timings and frame.prompt_progress is not None:
            return False
        if self._generated and (generated := count(at(frame, self._generated))) is not None:
            return generated > 0
        if whole and self.text:
            return isinstance(getattr(words, self.text), str)
        if says or not self.blank:
            return says
        framed = bool(self.framed_by) and getattr(words, self.framed_by) is not None
        is_farewell = ended and fields_stated(frame, self.farewell) is not None
        return bool(getattr(words, self.blank) == "") and not framed and not is_farewell

    def _handed_on(self, frame: Any, *, ended: bool) -> dict[str, object] | None:
        holder = getattr(frame, self.extras_in)
        found = fields_stated(holder, self.extras) if ended and isinstance(holder, msgspec.Struct) else None
        return None if found is None else {self.extras_in: found}

    def _usage(self, frame: Any) -> Usage | None:
        prompt, cached, completion, reasoning = self._counts
        usage = Usage(_first(frame, prompt), _first(frame, cached), _first(frame, completion), _first(frame, reasoning))
        return None if usage == NO_USAGE and not self.choices else usage


class _Found:
    """The output and the ends in the choices of one frame."""

    __slots__ = ("answered", "denied", "finish", "finished", "output", "wordless")

    def __init__(self) -> None:
        self.output: list[int] = []
        self.finished: list[int] = []
        self.finish: Finish | None = None
        self.wordless = 0
        self.answered = self.denied = False


def _path(name: str) -> tuple[str, ...]:
    return tuple(filter(None, re.split("[.:]", name)))


def _paths(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple([_path(name) for name in names])


def _says(words: Any, paths: tuple[tuple[str, ...], ...]) -> bool:
    """Whether one of these fields is neither null nor empty, nor false."""
    for path in paths:
        value = getattr(words, path[0])
        if value and (len(path) == 1 or at(value, path[1:])):
            return True
    return False


def _first(frame: Any, paths: tuple[tuple[str, ...], ...]) -> int | None:
    """The first of these fields that states a count; Triton's tensors are lists."""
    for path in paths:
        value = at(frame, path)
        if (tokens := count(value[0] if isinstance(value, list) and value else value)) is not None:
            return tokens
    return None
