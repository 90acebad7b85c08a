"""Manifests as people have them, one of each shape: attached whole, taken out again, and left alone where nothing is asked.

What is said here holds for every file in `manifests/`; a new one needs no test of its own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.inject.attaching import attach_all, attached_pods, ports_of
from sidecar.commands.inject.bypassing import commands
from sidecar.commands.inject.edited_object import undone
from sidecar.commands.inject.engine_in_pod import find
from sidecar.commands.inject.manifest_text import Document, read, written
from sidecar.commands.inject.ways_to_pods import is_pool, is_service, selector_of, selects
from sidecar.commands.inject.workload_kinds import Led, kind_of, pods_of
from tests.support.attached import EVERY, again, attached, flat, given, plain, settings_for, text_of
from tests.support.schemas import refused


each_manifest = pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)


def workloads(documents: list[Document]) -> Iterator[tuple[Any, Any, Any]]:
    for document in documents:
        for one in document.objects:
            if (kind := kind_of(one, {})) is not None:
                for place in pods_of(one, kind):
                    yield one, kind, place


@each_manifest
def test_every_engine_is_attached_and_nothing_is_refused(path: Path) -> None:
    _, done = attached(path)

    assert done.refused == []
    assert done.workloads == len([*attached_pods(flat(again(path)))]) >= 1


@each_manifest
def test_what_led_to_the_engine_leads_to_the_sidecar_of_every_pod_behind_it_and_that_to_the_engine(path: Path) -> None:
    """By what the sidecar and the engine are told to listen on: this is the walk of a request."""
    before, documents = given(path), again(path)
    engines = {}
    for one, kind, place in workloads(documents):
        spec = place.spec_in(one)
        sidecars = [
            each
            for key in ("initContainers", "containers")
            for each in spec.get(key) or ()
            if each.get("name") == "sidecar"
        ]
        if sidecars:
            (sidecar,) = sidecars
            listens = next(port["containerPort"] for port in sidecar["ports"])
            told = next(int(word.rsplit(":", 1)[1]) for word in sidecar["args"] if word.startswith("--engine.url="))
            rest = {
                **spec,
                "containers": [each for each in spec.get("containers") or () if each.get("name") != "sidecar"],
            }
            found = find(rest, "", None)
            if found.engine is not None or kind.led is not Led.BY_OPERATOR:
                assert found.port == told
            assert told != listens
            engines[id(one)] = (one, place.labels_in(one), listens)
    assert engines
    ports_before = [_targets(one) for document in before for one in document.objects if is_service(one) or is_pool(one)]
    routes = [one for document in documents for one in document.objects if is_service(one) or is_pool(one)]
    for was, route in zip(ports_before, routes, strict=True):
        behind = [
            (one, labels, listens) for one, labels, listens in engines.values() if selects(selector_of(route), labels)
        ]
        others = [
            one
            for one, _, place in workloads(documents)
            if id(one) not in engines and selects(selector_of(route), place.labels_in(one))
        ]
        if not behind:
            assert _targets(route) == was
        elif others:
            assert _numbers(route, others[0]) == _numbers_of(was, others[0])
        else:
            for one, _, listens in behind:
                assert listens in _numbers(route, one), (route["metadata"]["name"], _numbers(route, one))


def _targets(one: Any) -> list[Any]:
    spec = one["spec"]
    if is_pool(one):
        return [each["number"] for each in spec.get("targetPorts", ())] + [spec.get("targetPortNumber")]
    return [each.get("targetPort", each["port"]) for each in spec["ports"]]


def _numbers(route: Any, workload: Any) -> list[int | None]:
    return _numbers_of(_targets(route), workload)


def _numbers_of(targets: list[Any], workload: Any) -> list[int | None]:
    names: dict[str, int] = {}
    for place in pods_of(workload, kind_of(workload, {})):  # type: ignore[arg-type]  # it makes pods
        for container in place.spec_in(workload)["containers"]:
            names |= {port["name"]: port["containerPort"] for port in container.get("ports", ()) if "name" in port}
    return [each if isinstance(each, int) else names.get(each) for each in targets]


@each_manifest
def test_what_is_taken_out_again_is_what_was_there(path: Path) -> None:
    documents = read(text_of(path), "again")
    for document in documents:
        for one in document.objects:
            undone(one)
            document.changed = True

    assert plain(read(written(documents), "back")) == plain(given(path))


@each_manifest
def test_a_second_time_changes_nothing(path: Path) -> None:
    documents = read(text_of(path), "again")
    attach_all(documents, settings_for(path))

    assert written(documents) == text_of(path)


@each_manifest
def test_a_document_that_is_not_concerned_comes_out_byte_by_byte_and_comments_stay(path: Path) -> None:
    documents, _ = attached(path)
    text, was = text_of(path), path.read_text()
    untouched = [document.text for document in documents if not document.changed]
    comments = [line.split("#", 1)[1] for line in was.splitlines() if line.lstrip().startswith("#")]

    assert [piece for piece in untouched if piece not in text] == []
    assert [comment for comment in comments if comment not in text] == []


@each_manifest
def test_kubernetes_takes_every_object_strictly(path: Path) -> None:
    told = {f"{one['kind']} {one['metadata']['name']}": refused(one) for one in plain(again(path))}

    assert {name: why for name, why in told.items() if why} == {}


@each_manifest
def test_no_pod_template_of_others_changes(path: Path) -> None:
    """Pods that were not named are not made anew."""
    documents, _ = attached(path)
    before = {(one["kind"], one["metadata"]["name"]): one for one in plain(given(path))}
    changed = [
        (one["kind"], one["metadata"]["name"])
        for one, _, place in workloads(documents)
        if place.labels_in(one).get("llm-phase-sidecar") != "attached"
        and json.loads(json.dumps(one)) != before[one["kind"], one["metadata"]["name"]]
    ]

    assert changed == []


@each_manifest
def test_the_way_out_leads_every_route_to_the_engine_and_the_way_back_to_the_sidecar(path: Path) -> None:
    documents = again(path)
    engines = {(ports_of(pods) or (0, 0))[0] for pods in attached_pods(flat(documents))}
    out, cannot = commands(documents, back=False)
    back, _ = commands(documents, back=True)

    assert len(out) == len(back)
    assert out or cannot
    for command in out:
        steps = json.loads(command[command.index("'[") + 1 : command.rindex("'")])
        before = [port for one in plain(given(path)) if is_service(one) or is_pool(one) for port in _targets(one)]
        assert {step["value"] for step in steps} <= {*engines, *before}
        assert command.startswith("kubectl patch ")
