"""Manifests as text: cut at their markers, changed in place, and otherwise the owner's."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.commands.inject.manifest_text import ManifestError, owned, read, written


TEXT = """\
# first
%YAML 1.2
---
a: 1 # why
kind: A
---   # a comment behind the marker
kind: B
text: |
  ---x
  --- is text here, because it is indented
...
---
# nothing but a comment
--- {kind: C, items: [1]}
---

kind: D"""


def test_markers_cut_and_everything_else_comes_out_as_it_went_in() -> None:
    documents = read(TEXT.replace("%YAML 1.2\n", ""), "x.yaml")

    assert written(documents) == TEXT.replace("%YAML 1.2\n", "")
    assert [one["kind"] for document in documents for one in document.objects] == ["A", "B", "C", "D"]
    assert [document.first_line for document in documents if document.objects] == [3, 6, 13, 15]


@given(st.text(alphabet="ab:-{}[]#\n .'\"|&*", max_size=80))
def test_any_text_is_read_whole_or_refused_with_its_place(text: str) -> None:
    told, documents = "", []
    try:
        documents = read(text, "x.yaml")
    except ManifestError as error:
        told = str(error)

    assert told.startswith("x.yaml:") or written(documents) == text


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["C"]), max_size=5),
        st.recursive(st.text(st.characters(exclude_categories=["C"]), max_size=9) | st.integers() | st.booleans() | st.none(), lambda each: st.lists(each, max_size=3), max_leaves=5),
        max_size=4,
    )
)  # fmt: skip
def test_json_stays_json(said: dict[str, Any]) -> None:
    """Compact or indented, as it was."""
    for indent in (None, 2, 4):
        (document,) = read(json.dumps({"kind": "X", **said}, indent=indent) + "\n", "x.json")
        document.objects[0]["kind"], document.changed = "Y", True

        assert json.loads(document.written()) == {
            "kind": "Y",
            **{name: one for name, one in said.items() if name != "kind"},
        }
        assert document.written() == json.dumps(document.root, indent=indent, ensure_ascii=False) + "\n"


def test_json_stays_json_in_a_stream_too() -> None:
    """Beside YAML, which keeps its comments."""
    text = '---\n{\n    "kind": "X",\n    "a": [\n        1\n    ]\n}\n---\nkind: Y  # why\n'
    documents = read(text, "x")
    for document in documents:
        for one in document.objects:
            one["kind"], document.changed = f"{one['kind']}2", True

    assert written(documents) == text.replace("X", "X2").replace("Y  #", "Y2 #")


def test_a_change_keeps_comments_order_quotes_and_indentation() -> None:
    text = "b: 'x'  # b\n# above a\na:\n- one: 0644\n  two: yes\nkind: A\n"
    (document,) = read(text, "x.yaml")
    document.objects[0]["c"], document.changed = {"new": ["line"]}, True

    assert document.written() == f"{text}c:\n  new:\n  - line\n"


def test_lists_that_are_indented_stay_so() -> None:
    text = "kind: A\na:\n  - one\n  - two:\n      - three\n"
    (document,) = read(text, "x.yaml")
    document.objects[0]["b"], document.changed = ["four"], True

    assert document.written() == f"{text}b:\n  - four\n"


def test_what_an_anchor_shares_becomes_two_before_one_of_them_changes() -> None:
    (document,) = read("kind: A\nselector: &s {app: x}\nlabels: *s\n", "x.yaml")
    owned(document.root, "labels")["new"] = "y"
    document.changed = True
    (again,) = read(document.written(), "again")

    assert again.root == {"kind": "A", "selector": {"app": "x"}, "labels": {"app": "x", "new": "y"}}


def test_a_merge_key_is_no_place_to_write_through() -> None:
    (document,) = read("kind: A\nbase: &b {m: {x: 1}}\nmine: {<<: *b, n: 2}\n", "x.yaml")
    owned(document.root, "mine", "m")["x"] = 5
    document.changed = True
    (again,) = read(document.written(), "again")

    assert (again.root["base"]["m"]["x"], again.root["mine"]["m"]["x"], again.root["mine"]["n"]) == (1, 5, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: A\n---\nkind: B\nb: [1\n", "x.yaml:5:1: this is no YAML: "),
        ("a: 1\na: 2\n", "x.yaml:2:1: this is no YAML: found duplicate key"),
        (
            "a: {{ .Values.x }}\nb: - {{\n",
            "a Helm template is rendered first: helm template NAME CHART | sidecar inject",
        ),
    ],
)
def test_what_is_no_yaml_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(ManifestError) as error:
        read(text, "x.yaml")

    assert told in str(error.value)


def test_the_objects_of_a_list_stand_alone() -> None:
    (document,) = read("kind: List\nitems:\n- kind: A\n- {kind: List, items: [{kind: B}]}\n", "x.yaml")

    assert [one["kind"] for one in document.objects] == ["A", "B"]


def test_what_an_anchor_shares_between_the_objects_of_a_list_becomes_two() -> None:
    (document,) = read("kind: List\nitems:\n- {kind: A, labels: &l {app: x}}\n- {kind: B, selector: *l}\n", "x.yaml")
    owned(document.objects[0], "labels")["new"] = "y"
    document.changed = True
    (again,) = read(document.written(), "again")

    assert again.root["items"] == [
        {"kind": "A", "labels": {"app": "x", "new": "y"}},
        {"kind": "B", "selector": {"app": "x"}},
    ]


def test_a_text_of_windows_stays_one() -> None:
    """Its comments too, behind a value, on lines of their own and at the end of a map, and a text of several lines."""
    text = "# 1\r\nkind: A # 2\r\na:\r\n  # 3\r\n  b: 1\r\n\r\n# 4\r\nd: |\r\n  x\r\n  y\r\n"
    (document,) = read(text, "x.yaml")
    document.objects[0]["c"], document.changed = 2, True

    assert document.written() == f"{text}c: 2\r\n"
    assert document.objects[0]["d"] == "x\ny\n"


def test_json_keeps_its_ends_of_lines_and_escapes_what_a_terminal_obeys() -> None:
    text = '{\r\n  "kind": "A\\u009b\\ud800é",\r\n  "b": 1\r\n}\r\n'
    (document,) = read(text, "x.json")
    document.objects[0]["b"], document.changed = 2, True

    assert document.written() == text.replace("1", "2")


def test_a_date_is_a_word_as_it_is_to_kubernetes() -> None:
    text = "kind: A\nlabels: {since: 2024-08-06}\nargs: [2024-08-06T10:00:00Z, 1]\n"
    (document,) = read(text, "x.yaml")
    document.changed, document.objects[0]["kind"] = True, "B"

    assert document.objects[0]["labels"] == {"since": "2024-08-06"}
    assert document.written() == text.replace("A", "B", 1)


@pytest.mark.parametrize("kind", ["List", "DeploymentList"])
def test_a_list_of_any_kind_is_its_objects(kind: str) -> None:
    (document,) = read(f"kind: {kind}\nitems: [{{kind: A}}, {{kind: B}}]\n", "x.yaml")

    assert [one["kind"] for one in document.objects] == ["A", "B"]
