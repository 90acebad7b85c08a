"""Recognises the engine from its answers to a few questions. Pure; answers in, the next question or the kind out.

Each engine's file names the answers that prove it (`EngineKind`). The order here disturbs the engine least: first the list
of models, with the `Server` header; then the pages that only one engine has; last the page of metrics, for its names. On
some engines each reading of that page resets gauges (`reading_resets`), so it is read only if all of these are ruled out. An
owner of models that several engines name (`owner_is_shared`) is proven only by the names of the metrics. It refuses to guess:
answers that point to several engines, or to none, are "not recognised"; then the engine is asked for nothing further, and
its reports are not used.
"""

from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.replies import METRICS, MODELS_PATH, Answers, body_at, models_in


_SAYS_NO = (404, 405, 410, 501)
"""Statuses of a server without such a page. 401, 403 or 5xx do not show which pages it has."""
_STRANGER = "?"


def order() -> tuple[str, ...]:
    """Every path that may be asked to recognise an engine, in order."""
    pages = sorted((kind.page_turn, kind.page) for kind in KINDS.values() if kind.page)
    return (MODELS_PATH, *(page for _, page in pages), METRICS)


def recognised(answers: Answers) -> str | None:
    """The kind that these answers prove, or None: not (yet) recognised."""
    found = _by_models(answers) or _by_pages(answers)
    return found.pop() if len(found) == 1 else None


def next_question(answers: Answers) -> str | None:
    """The path to ask next; None when it is recognised, ambiguous, or there is nothing left to ask."""
    if MODELS_PATH not in answers:
        return MODELS_PATH
    if answers[MODELS_PATH].status is None or _by_models(answers) or _by_pages(answers):
        return None
    for path in (METRICS,) if _owner_is_shared(answers) else order():
        if path in answers:
            if answers[path].status is None:
                return None  # it hangs: to ask on would be to pile up
        elif path != METRICS or _reading_resets_nothing(answers):
            return path
    return None


def _owners(answers: Answers) -> set[str]:
    models = models_in(body_at(answers, MODELS_PATH))
    return set() if models is None else {model.owned_by for model in models.data if model.owned_by is not None}


def _owner_is_shared(answers: Answers) -> bool:
    owners = _owners(answers)
    return any(owners == {kind.owned_by} for kind in KINDS.values() if kind.owner_is_shared)


def _by_models(answers: Answers) -> set[str]:
    """Kinds that the list of models points to; a list with other owners too is a gateway's and points to none."""
    owners = _owners(answers)
    known = {kind.owned_by: kind.name for kind in KINDS.values() if kind.owned_by and not kind.owner_is_shared}
    kinds = {known[owner] for owner in owners if owner in known}
    servers = [answer.server.lower() for answer in answers.values()]
    kinds |= {kind.name for kind in KINDS.values() if kind.server and any(s.startswith(kind.server) for s in servers)}
    return kinds | {_STRANGER} if kinds and owners - known.keys() else kinds


def _by_pages(answers: Answers) -> set[str]:
    page = b"\n" + body_at(answers, METRICS)
    named = [kind for kind in KINDS.values() if kind.metric_prefix and b"\n" + kind.metric_prefix in page]
    # One that shows the names of the engine inside it beside its own is the one that is asked.
    outermost = [kind for kind in named if kind.shows_engine_inside][:1]
    own = [kind for kind in KINDS.values() if kind.page and kind.is_own(body_at(answers, kind.page))]
    return {kind.name for kind in (*own, *(outermost or named))}


def _reading_resets_nothing(answers: Answers) -> bool:
    # An engine is ruled out if the server has no such page, or one of its own.
    ruled_out = {path for path, answer in answers.items() if answer.status in (*_SAYS_NO, 200)}
    return _owner_is_shared(answers) or all(kind.page in ruled_out for kind in KINDS.values() if kind.reading_resets)
