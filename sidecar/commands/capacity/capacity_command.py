"""`sidecar capacity`: reads the flags, asks the running engine, prints the answers.

Exit codes: 0 every question is answered, 1 the engine did not answer, 2 wrong usage or a refused question. It calls the other files in order
and computes nothing itself.
"""

import sys
from collections.abc import Sequence

from sidecar.commands.capacity import running
from sidecar.commands.capacity.answer import Answer, RefusedError, UnansweredError
from sidecar.commands.capacity.answers import CACHE_QUESTION, DEFAULT_TOKENS, memory_answers, slots_that_fit
from sidecar.commands.capacity.engine_cache import CACHE_INFO, CACHE_INFOS, Cache
from sidecar.commands.capacity.flags import Asked, UsageError, read_flags
from sidecar.commands.capacity.load_answer import replicas_answer
from sidecar.commands.capacity.replica import Replica
from sidecar.commands.capacity.text import as_json, as_text
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text, width


def main(argv: Sequence[str], ask: running.Get = running.get) -> int:
    """Run the command and return the exit code; no command line makes it raise."""
    try:
        asked = read_flags(argv)
        answers = answer(asked, ask)
    except SystemExit as stop:  # argparse's way to show help
        return stop.code if isinstance(stop.code, int) else MISUSED
    except UsageError as errors:
        lines = [f"sidecar capacity: {line}" for line in str(errors).splitlines()]
        sys.stderr.write(errors_text([*lines, "`sidecar capacity --help` explains every flag, with examples"]))
        return MISUSED
    except KeyboardInterrupt:
        return FAILED
    sys.stdout.write(as_json(answers) if asked.word("output") == "json" else as_text(answers, width()))
    if any(given.refusal and not given.unanswered for given in answers):
        return MISUSED
    return FAILED if any(given.refusal for given in answers) else OK


def answer(asked: Asked, ask: running.Get) -> list[Answer]:
    """All answers, in the order of the page: kv, memory, decode, replicas. Raises UsageError for an unreadable file."""
    answers: list[Answer] = []
    room = None
    if asked.has("model", "model.config", "model.layers"):
        cache, longest, refusal = _engine(asked, ask)
        if refusal is not None:
            question = "What does the engine state about its cache?"
            answers.append(
                Answer("engine", question, refusal=str(refusal), unanswered=isinstance(refusal, UnansweredError))
            )
        try:
            replica = Replica(asked, cache, longest)
        except RefusedError as refused:
            answers.append(Answer("kv", CACHE_QUESTION, refusal=str(refused)))
        else:
            answers += memory_answers(asked, replica)
            if asked.has("tokens"):
                room = slots_that_fit(replica, asked.count("tokens") or DEFAULT_TOKENS)
    if asked.has("wait"):
        answers.append(replicas_answer(asked, room))
    return answers


def _engine(asked: Asked, ask: running.Get) -> tuple[Cache | None, int | None, RefusedError | None]:
    url = asked.word("engine.url")
    if url is None:
        return None, None, None
    try:
        cache = running.cache_of(url, ask)
    except RefusedError as refusal:
        return None, None, refusal
    silent = (
        None
        if cache
        else RefusedError(
            f"{url}/metrics has no {CACHE_INFO}: only {' and '.join(CACHE_INFOS.values())} states its cache there. Give --gpu.memory instead"
        )
    )
    return cache, running.longest_of(url, ask), silent
