"""Sends the probes of `sidecar verify`, one at a time, to one address or two.

Before the first probe each address is asked for its models, and all that is wrong with either is told at once. At two addresses each probe
goes to both, by turns first to the one and first to the other, so that no drift of the engine looks like a hop. Nothing here judges.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from yarl import URL

from sidecar.commands.asking import Asker, Reply, below, session
from sidecar.commands.verify.answer_times import answer_of
from sidecar.commands.verify.probe_shapes import CHAT, VERIFY_PROBES, Probe, key_variable
from sidecar.commands.verify.verify_findings import Evidence, Probed
from sidecar.engines.engine import AUTO
from sidecar.engines.kind import EngineKind
from sidecar.engines.kinds import kind_named
from sidecar.engines.probe.detect import next_question, recognised
from sidecar.engines.probe.identity import identity_of
from sidecar.engines.probe.replies import MODELS_PATH, Answer, Identity, models_in
from sidecar.engines.probe.where import http_url, unix_path
from sidecar.observe.verify_probes import VERIFY_HEADER


LONGEST_PROBE_SECONDS = 120.0
"""Most seconds that one probe may take: an engine on a CPU, with a queue before it, answers within it."""
VERIFY_AGENT = "sidecar-verify"
REFUSES = (401, 403)
NOT_SERVED = (404, 405, 501)
IN_A_ROW = 3
"""Probes that fail one after the other at one address end the run: the rest would add nothing but load."""


class UnverifiableError(Exception):
    """Nothing can be verified; the arguments are all errors, one for each address or more."""


@dataclass(slots=True)
class Place:
    """One address: the engine's own, or the users'."""

    name: str
    """`engine` or `entry`, as in its flags."""
    url: str
    key: str = ""
    model: str = ""
    asker: Asker | None = None
    probed: list[Probed] = field(default_factory=list)
    failed_in_a_row: int = 0

    def at(self, path: str) -> URL:
        """An address below it; /v1 at its end, as clients' libraries want it, is not doubled."""
        return below(http_url(self.url).rstrip("/").removesuffix("/v1"), path)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    async def get(self, path: str) -> Reply:
        assert self.asker is not None  # set before the first question
        return await self.asker.ask(self.at(path), headers={"Accept-Encoding": "identity", **self.headers})


async def verified(
    places: Sequence[Place], told: Callable[[str], None] = lambda _name: None
) -> tuple[Evidence, Identity]:
    """Send all probes. `told`: called with the name of each before it is sent. Raises UnverifiableError."""
    async with AsyncExitStack() as stack:
        for place in places:
            one = session(LONGEST_PROBE_SECONDS, agent=VERIFY_AGENT, unix_path=unix_path(place.url))
            place.asker = Asker(await stack.enter_async_context(one))
        models = [await place.get(MODELS_PATH) for place in places]
        errors = []
        for place, reply in zip(places, models, strict=True):
            place.model = place.model or places[0].model  # the entry serves the engine's, under the same name
            errors += _wrong(place, reply)
        if errors:
            raise UnverifiableError(*errors)
        kind, identity = await _recognised(places[0], models[0])
        run = secrets.token_hex(4)
        for number, probe in enumerate(VERIFY_PROBES):
            told(probe.name)
            for place in places if number % 2 == 0 else reversed(places):
                if place.failed_in_a_row < IN_A_ROW:
                    await _probe(probe, place, kind, run)
    by_name = {place.name: place.probed for place in places}
    evidence = Evidence(
        kind=kind, version=identity.version, engine=by_name.get("engine", ()), entry=by_name.get("entry", ())
    )
    return evidence, identity


def _wrong(place: Place, reply: Reply) -> list[str]:
    """All that its list of models says against probing it; fills in the model."""
    flag = f"--{place.name}.url"
    if reply.status is None:
        return [f"{flag}: {reply.told}"]
    if reply.status in REFUSES:
        had = "refuses the API key that was given" if place.key else "asks for an API key"
        return [f"{flag}: {reply.where} {had} ({reply.status}): {how_to_give_a_key(place.name)}"]
    listed = models_in(reply.body) if reply.good else None
    names = [] if listed is None else [model.id for model in listed.data]
    if not place.model and names:
        place.model = next((model.id for model in listed.data if model.parent is None), names[0]) if listed else ""
    if not place.model:
        why = reply.told if not reply.good else f"{reply.where} lists no model"
        return [f"{flag}: {why}; --{_model_flag(place)} names the model that is asked for"]
    if names and place.model not in names:
        return [
            f"{flag}: {reply.where} has no model {place.model!r}; it lists {', '.join(names[:8])}: choose by --{_model_flag(place)}"
        ]
    return []


def how_to_give_a_key(name: str) -> str:
    """Keys are no flags: all users of a machine can read the arguments of a process."""
    return f"put it into a file and name that by --{name}.api-key-file, or into the variable {key_variable(name)}"


def _model_flag(place: Place) -> str:
    return "model" if place.name == "engine" else "entry.model"


async def _recognised(place: Place, models: Reply) -> tuple[EngineKind, Identity]:
    """The kind of the engine, by the questions that the sidecar asks too, and what it says of itself."""
    answers = {MODELS_PATH: _answer(models)}
    while (path := next_question(answers)) is not None:
        answers[path] = _answer(await place.get(path))
    kind = kind_named(recognised(answers) or AUTO)
    for path in kind.asks:
        if path not in answers:
            answers[path] = _answer(await place.get(path))
    return kind, identity_of(kind, answers)


def _answer(reply: Reply) -> Answer:
    return Answer(reply.status, reply.body if reply.good else b"", reply.server)


async def _probe(probe: Probe, place: Place, kind: EngineKind, run: str) -> None:
    assert place.asker is not None  # set before the first question
    headers = {
        "Content-Type": "application/json",
        "Accept-Encoding": "gzip, deflate" if probe.gzip else "identity",
        VERIFY_HEADER.decode(): "1",
        **place.headers,
    }
    exchange = await place.asker.timed(place.at(CHAT), probe.body(run, place.name, place.model), headers)
    answer = answer_of(exchange, kind)
    if exchange.status in (*REFUSES, *NOT_SERVED) and not any(one.answer.good for one in place.probed):
        todo = _what_to_do(place, exchange.status)
        raise UnverifiableError(f"--{place.name}.url: {exchange.where} {answer.failure}; {todo}")
    place.probed.append(Probed(probe, answer))
    place.failed_in_a_row = 0 if answer.good else place.failed_in_a_row + 1


def _what_to_do(place: Place, status: int) -> str:
    if status in REFUSES:
        return how_to_give_a_key(place.name)
    return f"is it the address below which /v1 stands, and the model {place.model!r} one that it serves (--{_model_flag(place)})?"


def places_of(told: Mapping[str, str], keys: Mapping[str, str]) -> list[Place]:
    """The addresses that the flags name. The entry is asked for the engine's model unless it has a name of its own there."""
    names = {"engine": told.get("model", ""), "entry": told.get("entry.model", told.get("model", ""))}
    return [
        Place(name, told[f"{name}.url"], keys.get(name, ""), model)
        for name, model in names.items()
        if f"{name}.url" in told
    ]
