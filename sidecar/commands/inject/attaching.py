"""The work of `sidecar inject` on a set of manifests: which workloads are asked for, and how each gets its sidecar and its traffic.

The order for one workload: its pod and its engine are found; then what leads traffic there. A rollout has pods of before and new pods behind one
Service at the same time, so what leads to both must be right for both, and nothing that leads to them is changed where that can be:

- It asks for a port by its name: the name keeps its place in the engine's container, and its number becomes the sidecar's. Each pod answers
  for itself.
- It asks for a number, or nothing can be seen to ask: the sidecar takes that number, and the engine listens on another one.
- The engine cannot be told another port: what leads there by number is turned to the sidecar's own port, and that only when every pod
  has its sidecar: a second step, after the first (`steps_in_order.py`).

What can be done in none of these ways is refused. Nothing is half attached: with one refusal nothing is written, and all of them are told at once.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sidecar.commands.inject.edited_object import Edited
from sidecar.commands.inject.engine_in_pod import ENGINE_PORT, Found, UnclearError, engine_of, find, out_of_sight
from sidecar.commands.inject.manifest_shapes import odd_shapes
from sidecar.commands.inject.manifest_text import Document, Object
from sidecar.commands.inject.named_elsewhere import counting, followed, places, told_elsewhere
from sidecar.commands.inject.pod_with_sidecar import (
    ADMIN,
    ATTACHED,
    IS_ATTACHED,
    NAME,
    TRAFFIC,
    PodSettings,
    attach,
    cannot_take_port,
)
from sidecar.commands.inject.scrapers_way import LET_IN, closed_by, is_choosing, rule_for_scrapers
from sidecar.commands.inject.ways_to_pods import (
    Moved,
    Route,
    addresses_of,
    asked_at,
    asked_by_address,
    called,
    in_place,
    is_policy,
    is_pool,
    is_service,
    let_pass,
    named_ports,
    namespace_of,
    other_ports,
    ports_asked,
    rest_on,
    routes_to,
    runs_in,
    same_place,
    selector_of,
    selects,
    turn,
)
from sidecar.commands.inject.workload_kinds import (
    BY_CONTROLLER,
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
    replicas_of,
    spec_of_pods,
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
    container: str = ""
    port: int | None = None
    further_kinds: Mapping[str, Path] = field(default_factory=dict)
    scrapers: Sequence[str] = ()
    """Labels of what scrapes, NAME=VALUE, beside those that are known."""
    mesh_ports: Sequence[int] = ()
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
    """Those too that stay as they are, and that a change was decided from."""
    later: list[Object] = field(default_factory=list)
    """The objects that may change only when all new pods are ready, and the pods of before are gone."""
    in_steps: list[str] = field(default_factory=list)
    """Why it is so, a sentence each."""


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
    work.let_scrapers_in()
    for each in work.edited.values():
        each.sign()
    work.done.changed = [each for each in work.edited.values() if each.changes]
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
        leads, at = is_service(one) or is_pool(one), spec_of_pods(one)
        if id(one) in known or leads or _asked(one) == "false":
            continue
        if kind_of(one, settings.further_kinds) is not None:
            why = "it describes no pod of its own; label what makes its pods"
        else:
            path = f"--pod-spec-path={one.get('kind')}={at or 'spec.template.spec'}"
            why = f"this kind is not known; if it has a pod's spec, say where: {path}"
        if asks_by_name(one):
            done.refused.append(f"{called(one)}: {why}")
        elif (
            settings.every
            and at
            and any(engine_of(each) for _, each in containers_in(Edited(one).get((*at.split("."),))))
        ):
            done.lines.append(f"{called(one)} is left as it is: {why}")


@dataclass(slots=True)
class _Way:
    """How one workload is attached."""

    pods: Pods
    found: Found
    routes: list[Route]
    must: str
    """Why the sidecar has to take the engine's port: nothing of what leads there can be turned. Empty if it can."""
    cannot: str
    """Why it cannot take it; empty if it can."""
    unsafe: str
    """Why no name of a port may become the sidecar's; empty if it may."""
    takes_port: bool = False

    @property
    def turned(self) -> list[tuple[Route, tuple[Path, ...]]]:
        """The paths that have to be turned if the sidecar does not take the port."""
        asked = [(each, each.ports if self.unsafe else each.by_number) for each in self.routes]
        return [(each, paths) for each, paths in asked if paths]

    @property
    def named(self) -> list[tuple[Route, str]]:
        """The objects that ask for the engine by names that may become the sidecar's, with each name."""
        asked = [(each, {str(asked_at(each.one, path)) for path in each.by_name}) for each in self.routes]
        return [(each, name) for each, names in asked if not self.unsafe for name in sorted(names)]

    @property
    def why(self) -> str:
        """Why the sidecar takes the port."""
        return self.must or self.unsafe or next(f"{called(each.one)} asks for its number" for each, _ in self.turned)


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
        """Find each engine and what leads to it. Workloads behind one Service that is turned are all attached for that."""
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
            elsewhere = (
                _asked_elsewhere(pods, found, routes, self.objects) if by_routes and not found.is_certain else ""
            )
            if why := next(further, elsewhere):
                self.done.refused.append(f"{called(pods.one)}: {why}")
                continue
            routes += addresses_of(labels, here, self.objects) if by_routes else ()
            asks = asked_by_address(pods.one, (found.port, TRAFFIC), self.objects)
            turned = next(routes_to(labels, here, pods.spec, TRAFFIC, self.objects), None)
            cannot = (
                f"{called(turned.one)} leads to port {TRAFFIC}"
                if turned
                else asks[TRAFFIC] or cannot_take_port(pods.spec, found)
            )
            unsafe = asks[found.port] or self._unsafe_name(pods, found, routes)
            way = _Way(pods, found, routes, "" if turned else self._must_take(pods, routes, unsafe), cannot, unsafe)
            way.takes_port = bool(way.must or (way.turned and not way.cannot))
            self.ways.append(way)
        while along := next(self._taken_along(), None):
            along.takes_port, along.unsafe = False, along.unsafe or "what leads there is turned in any case"
            along.must = along.must or self._must_take(along.pods, along.routes, along.unsafe)

    def _taken_along(self) -> Iterator[_Way]:
        """A way that takes its port, or moves a name, although what leads there is turned: by a number of its own, or for another workload behind it."""
        turning = [way for way in self.ways if not way.takes_port and way.turned]
        turned = {(id(route.one), path) for way in turning for route, paths in way.turned for path in paths}
        for way in self.ways:
            asked = {(id(each.one), path) for each in way.routes for path in each.ports}
            if (way.takes_port or way.named) and (way in turning or asked & turned):
                yield way

    def attach(self, way: _Way) -> None:
        """One workload, and what leads to it. Raises UnclearError."""
        pods, found = way.pods, way.found
        before, labels, place = named_ports(pods.spec), dict(pods.labels), namespace_of(pods.one)
        if way.must and not (way.takes_port and not way.cannot):
            cannot = way.cannot or "another workload behind the same Service cannot"
            if not way.routes:
                cannot += f"{', or' if found.engine else ':'} give the pods a Service of their own in these manifests, or say --no-service"
            raise UnclearError(f"the sidecar must take the engine's port, and {cannot} ({way.must})")
        self._rests_on(way)
        names = None if way.takes_port else sorted({name for _, name in way.named})
        notes = attach(
            self.edited[id(pods.one)],
            pods.place,
            found,
            self.settings.pod,
            names=names,
            led=pods.kind.led,
            others_stay=(replicas_of(pods.one, pods.place.spec, self.objects) or 1) >= 2,
        )
        engine, listens = ports_of(pods) or (found.port, TRAFFIC)
        self._say(f"{called(pods.one)}: a sidecar before container {found.name}, whose engine is on port {engine}")
        self._say(*([f"{way.why}, so {notes[0]}", *notes[1:]] if way.takes_port else notes), indent="  ")
        if pods.kind.renewed != BY_CONTROLLER:
            self._say(f"its pods are made anew {pods.kind.renewed}", indent="  ")
        for route, name in way.named if not way.takes_port else ():
            rest_on(route, self.edited[id(route.one)])
            self._say(
                f"{called(route.one)} leads to port {name}, which is {listens} in new pods and {found.port} in those of before",
                indent="  ",
            )
        if not way.takes_port:
            self._turn(way)
        self._let_pass(labels, place, Moved(found.port, before, (listens, engine), named_ports(pods.spec)))
        self._told_elsewhere(way, before)

    def _turn(self, way: _Way) -> None:
        """Turn the numbers that lead there; what stands elsewhere is told."""
        for route, paths in way.turned:
            self._turn_later(route, paths, TRAFFIC, ", and ".join(filter(None, (way.unsafe, way.cannot))))
        if self.settings.no_service and not way.routes:
            self._say(
                f"its Service stands elsewhere: once all its pods are new, let it lead to port {TRAFFIC}", indent="  "
            )

    def _turn_later(self, route: Route, paths: Sequence[Path], port: int, why: str) -> None:
        said = turn(route, paths, self.edited[id(route.one)], port)
        if not any(one is route.one for one in self.done.later):
            self.done.later.append(route.one)
            self._say(said, indent="  ")
            self.done.in_steps.append(f"{said} only behind new pods: {why}")

    def _let_pass(self, labels: Mapping[str, object], place: str, moved: Moved) -> None:
        for one in self.objects:
            for at, ports, said in let_pass(one, moved, labels, near=in_place(one, place)) if is_policy(one) else ():
                for port in ports if at else ():
                    self.edited[id(one)].append(at, {"protocol": "TCP", "port": port})
                self._say(said, indent="  ")

    def _unsafe_name(self, pods: Pods, found: Found, routes: Sequence[Route]) -> str:
        """Why the names by which these routes ask must stay the engine's; empty if they ask by none."""
        names = {str(asked_at(route.one, path)) for route in routes for path in route.by_name}
        own = {str(each.get("name")) for each in found.container.get("ports") or ()}
        everywhere = [*(each for _, each in containers_in(pods.spec)), *(pods.spec.get("initContainers") or ())]
        declared = [str(port.get("name")) for each in everywhere for port in each.get("ports") or ()]
        for name in sorted(names):
            if name not in own or declared.count(name) > 1:
                return f"port {name} is in several containers, or not in the engine's"
        if names and pods.spec.get("hostNetwork"):
            return "its ports are its node's"
        if names and any(
            port.get("containerPort") == TRAFFIC for each in everywhere for port in each.get("ports") or ()
        ):
            return f"another container has port {TRAFFIC}"
        after = {**named_ports(pods.spec), **dict.fromkeys(names, TRAFFIC)}
        moved = Moved(found.port, named_ports(pods.spec), (TRAFFIC,), after)
        for one in self.objects if names else ():
            by_number = is_policy(one) and next(
                let_pass(one, moved, dict(pods.labels), near=same_place(one, pods.one)), None
            )
            near = [one] if same_place(one, pods.one) else []
            if by_number or any(token for _, token, _ in places(near, pods.labels, routes, {str(found.port)})):
                return f"{called(one)} names the number {found.port}"
        return ""

    def _told_elsewhere(self, way: _Way, before: Mapping[str, int]) -> None:
        """Follow or tell all else that names the engine's port. `before`: the ports of the pods by their names, as they were."""
        pods, was, annotations = way.pods, way.found.port, (*way.pods.place.metadata, "annotations")
        now, after = (ports_of(pods) or (was, TRAFFIC))[1], named_ports(pods.spec)
        tokens = {str(was): was} | {name: after.get(name, was) for name, number in before.items() if number == was}
        near = [one for one in self.objects if same_place(one, pods.one)]
        self._say(*followed(self.edited[id(pods.one)], annotations, was, now), indent="  ")
        self._say(*told_elsewhere(near, dict(pods.labels), way.routes, tokens, now), indent="  ")
        self._say(*counting(near, pods.one, next(_sidecars(pods.spec))["resources"]), indent="  ")

    def let_scrapers_in(self) -> None:
        """Let what scrapes reach the admin port of each pod with a sidecar, or name it as closed."""
        for pods in self.wanted:
            labels, place, names = dict(pods.labels), namespace_of(pods.one), named_ports(pods.spec)
            for one in self.objects:
                if not is_choosing(one, labels, place):
                    continue
                if lacks := rule_for_scrapers(one, names, self.settings.scrapers, self.settings.mesh_ports):
                    edited = self.edited[id(one)]
                    edited.rests_on(("spec", "podSelector"), ("spec", "ingress"))
                    edited.append(("spec", "ingress"), lacks)
                    self._say(f"{called(one)} lets in port {ADMIN} for {json.dumps(lacks['from'])}")
            if closed := closed_by(labels, place, names, self.objects):
                self._say(f"{called(pods.one)}: port {ADMIN} is closed to what scrapes it, by {closed}: {LET_IN}")

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

    def lead(self, pods: Pods) -> None:
        """Turn what leads past the sidecar of pods that have one: they were attached without it, or it came later."""
        self._say(f"{called(pods.one)} has its sidecar already")
        if (ports := ports_of(pods)) is None:
            self._say("which engine it stands before is not in its flags, so that what leads there stays", indent="  ")
            return
        engine, listens = ports
        if self.settings.no_service:
            return
        place, labels = namespace_of(pods.one), dict(pods.labels)
        routes = [*routes_to(labels, place, pods.spec, engine, self.objects)]
        for route in routes:
            if why := self._stranded(pods, route, route.ports, listens):
                self._say(f"{why}, so it stays", indent="  ")
            else:
                self._turn_later(route, route.ports, listens, f"{called(pods.one)} has its sidecar there")
        names = named_ports(pods.spec)
        if routes:
            self._let_pass(labels, place, Moved(engine, names, (listens,), names))

    def _stranded(self, pods: Pods, route: Route, paths: Sequence[Path], port: int) -> str:
        """The pods that would be led nowhere if this led to that port, or that it maps no port; empty if nothing speaks against it."""
        for other in (*self.workloads, *strangers(self.objects, self.settings)):
            is_new = other in self.wanted and not other.has_sidecar
            if (
                other is pods
                or is_new
                or not (same_place(other.one, pods.one) and selects(selector_of(route.one), other.labels))
            ):
                continue
            names = named_ports(other.spec)
            serves = (
                ports_of(other) or ()
                if other.has_sidecar
                else {names.get(str(each), each) for each in (asked_at(route.one, path) for path in paths)}
            )
            if port not in serves:
                which = f"whose sidecar is not on {port}" if other.has_sidecar else "which has no sidecar"
                return f"{called(route.one)} leads to {called(other.one)} too, {which}"
        return f"{called(route.one)} is headless and maps no port" if route.headless else ""

    def _must_take(self, pods: Pods, routes: Sequence[Route], unsafe: str) -> str:
        """Why what leads to these pods cannot lead to the sidecar's own port; empty if it can. `unsafe`: why names would be turned too."""
        for route in routes:
            paths = route.ports if route.headless or unsafe else route.by_number
            if (paths or route.headless) and (why := self._stranded(pods, route, paths, TRAFFIC)):
                return why
        if routes or self.settings.no_service:
            return ""
        if pods.kind.led in _BY_ROUTES:
            return "no Service or InferencePool of these manifests leads to it"
        return f"traffic comes by {pods.kind.led.value}"

    def _say(self, *lines: str, indent: str = "") -> None:
        self.done.lines += [f"{indent}{line}" for line in lines]


def _further_ports(route: Route, others: Sequence[int]) -> str:
    listed = ", ".join(str(each) for each in others)
    return (
        f"{called(route.one)} leads to ports {listed} of these pods too, and one sidecar stands before one engine:"
        " let the engine's own server share one port among its ranks, or keep these pods out by the label's \"false\""
    )


def _asked_elsewhere(pods: Pods, found: Found, routes: Sequence[Route], objects: Sequence[Object]) -> str:
    """Why the port of the engine, which is not certain, may be another one; empty if nothing says so.

    A Service leads these pods to a port of which no container knows; or nothing leads to the engine's, and what may state it is not seen.
    """
    listed = {int(port["containerPort"]) for each in runs_in(pods.spec) for port in each.get("ports") or ()}
    known = listed | {found.port, found.metrics_port, TRAFFIC, ADMIN}
    for one in objects:
        if (is_service(one) or is_pool(one)) and same_place(one, pods.one) and selects(selector_of(one), pods.labels):
            for port in ports_asked(one):
                if port not in known:
                    return f"{called(one)} leads to {port}, the engine seems to be on {found.port}: say it by {ENGINE_PORT}"
    if not routes and (unseen := out_of_sight(found)):
        return f"the port of its engine may be in what {unseen} names, and nothing here leads to {found.port}: say it by {ENGINE_PORT}"
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
        told = [re.search(r"^--proxy\.listen-address=.*?:?(\d+)$", str(word)) for word in sidecar.get("args") or ()]
        listens = next((int(each[1]) for each in told if each), None)
        ports = sidecar.get("ports") or [{"containerPort": TRAFFIC}]
        if number:
            return int(number[1]), listens or int(ports[0]["containerPort"])
    return None


def _sidecars(spec: Object) -> Iterator[Mapping[str, Any]]:
    for key in ("initContainers", "containers"):
        for container in spec.get(key) or ():
            if container.get("name") == NAME:
                yield container
