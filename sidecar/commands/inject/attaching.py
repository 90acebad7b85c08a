"""The work of `sidecar inject` on a set of manifests: which workloads are asked for, and how each gets its sidecar and its traffic.

The order for one workload: its pod and its engine are found; then what leads traffic there. A Service or InferencePool that leads to
these pods alone is turned to the sidecar's port. Where nothing can be turned (a headless Service, an operator's, none at all, one that
leads to pods without a sidecar as well), the sidecar takes the engine's port, and the engine listens on another one. What can be
done in neither way is refused. Nothing is half attached: with one refusal nothing is written, and all of them are told at once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sidecar.commands.inject.edited_object import Edited
from sidecar.commands.inject.engine_in_pod import ENGINE_PORT, Found, UnclearError, engine_of, find
from sidecar.commands.inject.manifest_shapes import odd_shapes
from sidecar.commands.inject.manifest_text import Document, Object
from sidecar.commands.inject.pod_with_sidecar import ADMIN, ATTACHED, IS_ATTACHED, NAME, TRAFFIC, PodSettings, attach
from sidecar.commands.inject.ways_to_pods import (
    Route,
    addresses_of,
    called,
    in_place,
    is_pool,
    is_service,
    let_in,
    let_out,
    name_number,
    named_ports,
    namespace_of,
    other_policy,
    other_ports,
    ports_asked,
    routes_to,
    runs_in,
    same_place,
    selector_of,
    selects,
    turn,
)
from sidecar.commands.inject.workload_kinds import (
    Led,
    Path,
    PodKind,
    PodPlace,
    containers_in,
    group_of,
    is_of_all,
    kind_of,
    pods_behind,
    pods_of,
    unknown_pods,
)


ASKED = "llm-phase-sidecar/attach"
"""Label or annotation of a workload: `"true"` asks for the sidecar, `"false"` keeps it out, whatever the flags say."""
_WHICH_CONTAINER, _WHICH_PORT = "llm-phase-sidecar/engine-container", "llm-phase-sidecar/engine-port"


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags."""

    every: bool = False
    selector: Mapping[str, str] = field(default_factory=dict)
    no_service: bool = False
    pods_only: bool = False
    """Services and pools stay as they are: first the pods are made anew, then traffic is led to them."""
    container: str = ""
    port: int | None = None
    further_kinds: Mapping[str, Path] = field(default_factory=dict)
    pod: PodSettings = field(default_factory=PodSettings)


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one workload."""

    one: Object
    kind: PodKind
    place: PodPlace

    @property
    def spec(self) -> Object:
        """The pod's spec."""
        return self.place.spec_in(self.one)

    @property
    def labels(self) -> Mapping[str, object]:
        """The labels of its pods. An operator's pods have more; a Service of the manifests knows these alone."""
        return self.place.labels_in(self.one)

    @property
    def has_sidecar(self) -> bool:
        """Whether it was attached before."""
        return self.labels.get(ATTACHED) == IS_ATTACHED


@dataclass(slots=True)
class Attached:
    """The work that was done, a line each; `refused`: why nothing may be written; `changed`: the objects that are others now."""

    lines: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    workloads: int = 0
    changed: list[Edited] = field(default_factory=list)


def attach_all(documents: Sequence[Document], settings: Settings) -> Attached:
    """Attach every workload that is asked for; the documents are changed in place. Write none of them where something is refused."""
    objects = [one for document in documents for one in document.objects]
    if odd := odd_shapes(objects, settings.further_kinds):
        return Attached(refused=odd)
    work = _Work(objects, {id(one): Edited(one) for one in objects}, list(workloads_of(objects, settings)), settings)
    work.choose()
    _refuse_unknown(objects, work.workloads, settings, work.done)
    before = [pods for pods in work.wanted if pods.has_sidecar]
    work.plan()
    for way in work.ways:
        try:
            work.attach(way)
            work.done.workloads += 1
        except UnclearError as error:
            work.done.refused.append(f"{called(way.pods.one)}: {error}")
    for pods in before:
        work.lead(pods)
    for each in work.edited.values():
        each.sign()
    work.done.changed = [each for each in work.edited.values() if each.changed]
    for document in documents:
        document.changed = any(work.edited[id(one)].changed for one in document.objects)
    return work.done


def workloads_of(objects: Sequence[Object], settings: Settings) -> Iterator[Pods]:
    """Everything that makes pods which may serve. Workers behind a leader do if something leads to them, and an engine is in them."""
    for one in objects:
        kind = kind_of(one, settings.further_kinds)
        if kind is not None:
            for place in pods_of(one, kind):
                yield Pods(one, kind, place)
            behind = [Pods(one, kind, place) for place in pods_behind(one, kind)]
            yield from (pods for pods in behind if _serves_too(pods, objects))


def _serves_too(pods: Pods, objects: Sequence[Object]) -> bool:
    leads = (one for one in objects if (is_service(one) or is_pool(one)) and same_place(one, pods.one))
    has_engine = any(engine_of(container) for _, container in containers_in(pods.spec))
    return has_engine and any(selects(selector_of(one), pods.labels) for one in leads)


def strangers(objects: Sequence[Object], settings: Settings) -> Iterator[Pods]:
    """Pods of kinds that are not known: a Service may lead to them too, and they have no sidecar."""
    for one in objects:
        if kind_of(one, settings.further_kinds) is None and (place := unknown_pods(one)):
            yield Pods(one, PodKind(group_of(one), str(one.get("kind")), place.spec[:-1]), place)


def _asked(one: Object, template: Object | None = None) -> str | None:
    """The word of the object itself, or else of its pod template: a label, or else an annotation."""
    for metadata in (one.get("metadata") or {}, template or {}):
        for where in ("labels", "annotations"):
            stated = (metadata.get(where) or {}).get(ASKED)
            if stated is not None:
                return str(stated).lower()
    return None


def asks_by_name(one: Object) -> bool:
    """Whether its own label or annotation asks for a sidecar."""
    return _asked(one) == "true"


def _is_hook(one: Object) -> bool:
    """Helm runs it once, at an event of the release: a test, a migration. It has no clients."""
    annotations = (one.get("metadata") or {}).get("annotations") or {}
    return "helm.sh/hook" in annotations


class Asked(Enum):
    """The one who asks for a sidecar in a workload."""

    NOT = "it is not asked for"
    BY_NAME = "its label or its annotation"
    OF_ALL = "--all or --selector, which mean the engines among them"


def _is_asked(pods: Pods, settings: Settings) -> Asked:
    """Raises UnclearError for a word that is neither true nor false."""
    one = pods.one
    stated = _asked(one, pods.place.metadata_in(one))
    if stated is not None:
        if stated not in ("true", "false"):
            raise UnclearError(f'it says {ASKED}: "{stated}"; "true" or "false" is meant')
        return Asked.BY_NAME if stated == "true" else Asked.NOT
    metadata = one.get("metadata") or {}
    if _is_hook(one) or metadata.get("ownerReferences"):  # what another object makes is made anew by it
        return Asked.NOT
    labels = metadata.get("labels") or {}
    if settings.selector and all(labels.get(key) == value for key, value in settings.selector.items()):
        return Asked.OF_ALL
    return Asked.OF_ALL if settings.every else Asked.NOT


def _refuse_unknown(objects: Sequence[Object], workloads: Sequence[Pods], settings: Settings, done: Attached) -> None:
    """A workload that asks for a sidecar, and whose pods cannot be found, would be left out in silence."""
    known = {id(each.one) for each in workloads}
    for one in objects:
        leads = is_service(one) or is_pool(one)
        if asks_by_name(one) and id(one) not in known and not leads:
            kind = one.get("kind")
            if kind_of(one, settings.further_kinds) is None:
                done.refused.append(
                    f"{called(one)}: this kind is not known; if it has a pod's spec, say where: --pod-spec-path={kind}=spec.template.spec"
                )
            else:
                done.refused.append(f"{called(one)}: it describes no pod of its own; label what makes its pods")


@dataclass(slots=True)
class _Way:
    """How one workload is attached. `why`: why what leads to it cannot be turned; empty if it can."""

    pods: Pods
    found: Found
    routes: list[Route]
    why: str = ""
    takes_port: bool = False


@dataclass(slots=True)
class _Work:
    """All objects, and what becomes of them."""

    objects: Sequence[Object]
    edited: Mapping[int, Edited]
    workloads: Sequence[Pods]
    settings: Settings
    wanted: list[Pods] = field(default_factory=list)
    ways: list[_Way] = field(default_factory=list)
    done: Attached = field(default_factory=Attached)
    _turned: set[int] = field(default_factory=set)
    """A Service may lead to two workloads: it is told once."""

    def choose(self) -> None:
        """Find the workloads that get a sidecar, and say which are left out."""
        for each in self.workloads:
            try:
                asked = _is_asked(each, self.settings)
            except UnclearError as error:
                self.done.refused.append(f"{called(each.one)}: {error}")
                continue
            if asked is Asked.OF_ALL and not any(engine_of(container) for _, container in containers_in(each.spec)):
                self.done.lines.append(
                    f"{called(each.one)} is left as it is: no engine is known in it (the label {ASKED} asks for it all the same)"
                )
            elif asked is not Asked.NOT:
                self.wanted.append(each)

    def plan(self) -> None:
        """Find each engine and what leads to it. Workloads behind one Service are attached in the same way, whichever has the reason."""
        for pods in self.wanted:
            if pods.has_sidecar:
                continue
            try:
                found = _engine_of(pods, self.settings)
            except UnclearError as error:
                self.done.refused.append(f"{called(pods.one)}: {error}")
                continue
            by_routes = pods.kind.led in _BY_ROUTES
            here = namespace_of(pods.one)
            labels = dict(pods.labels)
            routes = [*routes_to(labels, here, pods.spec, found.port, self.objects)] if by_routes else []
            further = (_further_ports(each, others) for each in routes if (others := other_ports(each, found.port)))
            elsewhere = _asked_elsewhere(pods, found, self.objects) if by_routes and not found.is_certain else ""
            if why := next(further, elsewhere):
                self.done.refused.append(f"{called(pods.one)}: {why}")
                continue
            routes += addresses_of(labels, here, self.objects) if by_routes else ()
            self.ways.append(_Way(pods, found, routes, self._cannot_turn(pods, routes)))
        for way in self.ways:
            way.takes_port = bool(way.why) and not (self.settings.no_service and not way.routes)
        while along := next(self._taken_along(), None):
            way, why = along
            way.why, way.takes_port = why, True

    def _taken_along(self) -> Iterator[tuple[_Way, str]]:
        for way in self.ways:
            for other in self.ways if not way.takes_port else ():
                for route in way.routes if other.takes_port else ():
                    if any(route.one is its.one for its in other.routes):
                        yield way, f"{called(route.one)} leads to {called(other.pods.one)} too, which needs it"

    def attach(self, way: _Way) -> None:
        """One workload, and what leads to it. Raises UnclearError."""
        pods, found, routes, why, takes_port = way.pods, way.found, way.routes, way.why, way.takes_port
        names, labels = named_ports(pods.spec), dict(pods.labels)
        by_name = self._by_name(pods, routes, names, found.port) if takes_port else []
        self._rests_on(way)
        try:
            notes = attach(
                self.edited[id(pods.one)],
                pods.place,
                found,
                self.settings.pod,
                takes_port=takes_port,
                led=pods.kind.led,
            )
        except UnclearError as error:
            raise UnclearError(f"{error} ({why})" if takes_port else str(error)) from None
        self._say(f"{called(pods.one)}: a sidecar before container {found.name}, whose engine is on port {found.port}")
        self._say(*([f"{why}, so {notes[0]}", *notes[1:]] if takes_port else notes), indent="  ")
        if takes_port:
            for route, path in by_name:
                self.edited[id(route.one)].set(path, found.port)
                self._say(f"{called(route.one)} leads to port {found.port}, which it called by name", indent="  ")
            for one in self.objects:
                if one.get("kind") == "NetworkPolicy" and same_place(one, pods.one):
                    self._say(*name_number(self.edited[id(one)], labels, found.port, names), indent="  ")
            for name in sorted(name for name, number in names.items() if number == found.port):
                if pods.kind.led is Led.BY_SERVICES:
                    self._say(
                        f"port {name} goes with the engine: a Service elsewhere that asks for it by name must ask for {found.port}",
                        indent="  ",
                    )
        elif why:
            self._say(f"its Service stands elsewhere: let it lead to port {TRAFFIC}", indent="  ")
        elif self.settings.pods_only:
            told = ", ".join(called(route.one) for route in routes)
            self._say(
                f"{told} leads to the engine still: without --pods-only it is turned, once the new pods are ready",
                indent="  ",
            )
        else:
            self._turn(routes, labels, namespace_of(pods.one), found.port, names)

    def _rests_on(self, way: _Way) -> None:
        """The container of the engine, how its port is known, the template of the pods that serve, and the labels by which they are found."""
        pods, found, edited = way.pods, way.found, self.edited[id(way.pods.one)]
        kind, place, at = pods.kind, pods.place, (*pods.place.spec, *found.path)
        selectors = [selector for each in way.routes if isinstance(selector := selector_of(each.one), dict)]
        labels = [(*place.metadata, "labels", key) for key in sorted({key for each in selectors for key in each})]
        words = ("name", "command", "args", "ports", *(("env",) if found.engine and found.engine.variable else ()))
        first = edited.get(kind.template) if kind.otherwise else pods.spec
        other = [kind.template] if first is None else []
        edited.rests_on(*other, *labels, *((*at, word) for word in words))

    def _by_name(
        self, pods: Pods, routes: Sequence[Route], names: Mapping[str, int], port: int
    ) -> list[tuple[Route, Path]]:
        """The ports that are asked for by name: they would follow the engine to its new port, and get the number. Raises UnclearError."""
        asked = []
        for route in routes:
            for path in route.ports:
                name = str(self.edited[id(route.one)].get(path))
                if name in names:
                    self._refuse_other_numbers(pods, route, name, port)
                    asked.append((route, path))
        return asked

    def _refuse_other_numbers(self, pods: Pods, route: Route, name: str, port: int) -> None:
        for other in self.workloads:
            if (
                same_place(other.one, pods.one)
                and selects(selector_of(route.one), other.labels)
                and _number_of(other, name, port) != port
            ):
                raise UnclearError(
                    f"{called(route.one)} asks for port {name}, which is another number in {called(other.one)}, and the sidecar"
                    " must take the engine's port: let the engines listen on the same one"
                )

    def lead(self, pods: Pods) -> None:
        """Turn what leads past the sidecar of pods that have one, as `--pods-only` leaves it."""
        self._say(f"{called(pods.one)} has its sidecar already")
        if (ports := ports_of(pods)) is None:
            self._say("which engine it stands before is not in its flags, so that what leads there stays", indent="  ")
            return
        engine, listens = ports
        if self.settings.pods_only or self.settings.no_service:
            return
        place, labels = namespace_of(pods.one), dict(pods.labels)
        routes = [*routes_to(labels, place, pods.spec, engine, self.objects)]
        if listens != TRAFFIC:
            self._lead_to_number(pods, routes, listens)
        elif routes and (why := self._cannot_turn(pods, routes)):
            self._say(f"{why}, so what leads to the engine stays", indent="  ")
        elif routes:
            self._turn(routes, labels, place, engine, named_ports(pods.spec))

    def _lead_to_number(self, pods: Pods, routes: Sequence[Route], port: int) -> None:
        """Put the number into what asks by name for the port that the sidecar has now: the name goes with the engine."""
        names = named_ports(pods.spec)
        for route in routes:
            try:
                self._by_name(pods, [route], names, port)
            except UnclearError as error:
                self._say(f"{error}; so it stays", indent="  ")
                continue
            self._say(turn(route, self.edited[id(route.one)], port), indent="  ")

    def _cannot_turn(self, pods: Pods, routes: Sequence[Route]) -> str:
        """Why what leads to these pods cannot lead to the sidecar's own port; empty if it can."""
        for route in routes:
            for other in (*self.workloads, *strangers(self.objects, self.settings)):
                left_out = other not in self.wanted and not other.has_sidecar
                if left_out and same_place(other.one, pods.one) and selects(selector_of(route.one), other.labels):
                    return f"{called(route.one)} leads to {called(other.one)} too, which has no sidecar"
            if route.headless:
                return f"{called(route.one)} is headless and maps no port"
        if routes:
            return ""
        if pods.kind.led in _BY_ROUTES:
            return "no Service or InferencePool of these manifests leads to it"
        return f"traffic comes by {pods.kind.led.value}"

    def _turn(
        self,
        routes: Sequence[Route],
        labels: Mapping[str, object],
        place: str,
        port: int,
        names: Mapping[str, int],
    ) -> None:
        for route in routes:
            if id(route.one) not in self._turned:
                self._turned.add(id(route.one))
                self._say(turn(route, self.edited[id(route.one)]), indent="  ")
        for one in self.objects:
            if one.get("kind") == "NetworkPolicy":
                near, edited = in_place(one, place), self.edited[id(one)]
                self._say(*(let_in(edited, labels, port, names) if near else ()), indent="  ")
                self._say(*let_out(edited, labels, port, names, near=near), indent="  ")
            self._say(*(other_policy(one, port) if in_place(one, place) else ()), indent="  ")

    def _say(self, *lines: str, indent: str = "") -> None:
        self.done.lines += [f"{indent}{line}" for line in lines]


def _further_ports(route: Route, others: Sequence[int]) -> str:
    listed = ", ".join(str(each) for each in others)
    return (
        f"{called(route.one)} leads to ports {listed} of these pods too, and one sidecar stands before one engine:"
        " let the engine's own server share one port among its ranks, or keep these pods out by the label's \"false\""
    )


def _asked_elsewhere(pods: Pods, found: Found, objects: Sequence[Object]) -> str:
    """The Service that leads these pods to a port of which no container knows, while the engine's is not certain; empty if none does."""
    listed = {int(port["containerPort"]) for each in runs_in(pods.spec) for port in each.get("ports") or ()}
    known = listed | {found.port, found.metrics_port, TRAFFIC, ADMIN}
    for one in objects:
        if (is_service(one) or is_pool(one)) and same_place(one, pods.one) and selects(selector_of(one), pods.labels):
            for port in ports_asked(one):
                if port not in known:
                    return f"{called(one)} leads to {port}, the engine seems to be on {found.port}: say it by {ENGINE_PORT}"
    return ""


_BY_ROUTES = (Led.BY_SERVICES, Led.BY_ADDRESS)


def _engine_of(pods: Pods, settings: Settings) -> Found:
    if is_of_all(pods.one):
        raise UnclearError(
            "its leader and its workers are made from one template, and each of them would get a sidecar: give it a leaderTemplate"
        )
    annotations = (pods.one.get("metadata") or {}).get("annotations") or {}
    port = annotations.get(_WHICH_PORT)
    if port is not None and not (str(port).isdecimal() and 0 < int(port) < 65_536):
        raise UnclearError(f"its annotation {_WHICH_PORT} is {port!r}; a number from 1 to 65535 is meant")
    stated = int(port) if port is not None else settings.port
    _refuse_modes(pods, settings, annotations, is_told=port is not None)
    found = find(pods.spec, str(annotations.get(_WHICH_CONTAINER, settings.container)), stated)
    if pods.kind.led is Led.BY_OPERATOR:
        (_, first), *_ = containers_in(pods.spec)
        asked = next((port.get("containerPort") for port in first.get("ports") or ()), pods.kind.known_port)
        if asked != found.port:
            raise UnclearError(
                f"its operator asks at port {asked}, and the engine listens on {found.port}: let it listen there;"
                f" where it does, say so by {ENGINE_PORT}"
            )
    return found


def _number_of(pods: Pods, name: str, port: int) -> int:
    """The port of a name, and the sidecar's where that has taken it; `port` where no container has the name."""
    number = named_ports(pods.spec).get(name, port)
    engine, listens = ports_of(pods) or (number, number)
    return listens if number == engine and listens != TRAFFIC else number


_MODE = "serving.kserve.io/deploymentMode"
_MODES_WITH_PODS = ("Standard", "RawDeployment")
"""Both are one mode; the second is its earlier name."""


def _refuse_modes(pods: Pods, settings: Settings, annotations: Mapping[str, Any], *, is_told: bool) -> None:
    """Raises UnclearError where an operator makes pods that these manifests do not show, or a Job would not end."""
    mode = annotations.get(_MODE, _MODES_WITH_PODS[0])
    if pods.kind.led is Led.BY_OPERATOR and mode not in _MODES_WITH_PODS:
        raise UnclearError(f"its {_MODE} is {mode}, and the sidecar is attached in the mode Standard alone")
    runtime = (pods.spec.get("model") or {}).get("runtime")
    if pods.kind.led is Led.BY_OPERATOR and runtime and not is_told:
        raise UnclearError(
            f"its container is that of the runtime {runtime}, which is not read: say on which port its engine listens by the annotation {_WHICH_PORT}"
        )
    ends = pods.spec.get("restartPolicy") in ("Never", "OnFailure")
    if settings.pod.plain and ends:
        raise UnclearError(
            "its pods end when all their containers have ended, and a container beside the engine does not: attach it without --plain"
        )


def attached_pods(objects: Sequence[Object]) -> Iterator[Pods]:
    """The workloads that have a sidecar, of the kinds that are known."""
    return (pods for pods in workloads_of(objects, Settings()) if pods.has_sidecar and list(_sidecars(pods.spec)))


def engines_of(pods: Pods) -> list[Object]:
    """The container that the workload's annotation names, or those in which an engine is known, or all of them."""
    there = [each for _, each in containers_in(pods.spec) if each.get("name") != NAME]
    named = ((pods.one.get("metadata") or {}).get("annotations") or {}).get(_WHICH_CONTAINER)
    return [each for each in there if each.get("name") == named] or [each for each in there if engine_of(each)] or there


def ports_of(pods: Pods) -> tuple[int, int] | None:
    """The port of the engine and that of its sidecar for clients, as the sidecar's own flags and ports say; None if they do not."""
    for sidecar in _sidecars(pods.spec):
        urls = [str(word) for word in sidecar.get("args") or () if str(word).startswith("--engine.url=")]
        urls += [
            str(each.get("value")) for each in sidecar.get("env") or () if each.get("name") == "SIDECAR__ENGINE__URL"
        ]
        number = re.search(r":(\d+)/?$", urls[-1]) if urls else None
        ports = sidecar.get("ports") or [{"containerPort": TRAFFIC}]
        if number:
            return int(number[1]), int(ports[0]["containerPort"])
    return None


def _sidecars(spec: Object) -> Iterator[Mapping[str, Any]]:
    for key in ("initContainers", "containers"):
        for container in spec.get(key) or ():
            if container.get("name") == NAME:
                yield container
