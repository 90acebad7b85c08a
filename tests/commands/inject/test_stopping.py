"""A pod stops in order, and the pod's stated grace is what its streams have: through `inject`, as manifests."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.inject.attaching import Attached, Settings, attach_all
from sidecar.commands.inject.engine_in_pod import HOOKS
from sidecar.commands.inject.manifest_text import read, written
from sidecar.commands.inject.pod_with_sidecar import PodSettings


RESERVE = 10
"""The seconds behind the drain, as the issue of the user has them."""


def asked(grace: int | None, hook: Any = None, chosen: PodSettings | None = None) -> tuple[Any, Attached]:
    """The pod's spec with its sidecar, and what was told."""
    engine = {"name": "vllm", "image": "vllm/vllm-openai", "args": ["--model=m"], "lifecycle": {"preStop": hook}}
    spec = {"containers": [engine], **({} if grace is None else {"terminationGracePeriodSeconds": grace})}
    one = {
        "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"},
        "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": spec}},
    }  # fmt: skip
    documents = read(json.dumps(one) + "\n", "x")
    done = attach_all(documents, Settings(every=True, pod=chosen or PodSettings()))
    return read(written(documents), "again")[0].root["spec"]["template"]["spec"], done


def times(spec: Any) -> tuple[int, int, int]:
    """The seconds of the pod, of the sidecar's drain, and of the hook that waits for it."""
    (sidecar,) = spec["initContainers"]
    drain = next(each["value"] for each in sidecar["env"] if each["name"] == "SIDECAR__SHUTDOWN__GRACE_SECONDS")
    command = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    return spec["terminationGracePeriodSeconds"], int(drain), int(command[command.index("-m") + 1])


def runs(*words: str) -> dict[str, Any]:
    return {"exec": {"command": list(words)}}


KNOWN: dict[str, tuple[Any, int]] = {
    "none": (None, 0),
    "a sleep": (runs("sleep", "15"), 15),
    "with its path": (runs("/bin/sleep", "15"), 15),
    "in minutes and seconds": (runs("sleep", "2m", "0.5s"), 121),
    "Kubernetes' own": ({"sleep": {"seconds": 7}}, 7),
    "in a shell": (runs("/bin/sh", "-c", "sleep 15"), 15),
    "several": (runs("bash", "-ec", "echo bye; sleep 5 && kill -TERM 1\nexec sleep 4"), 9),
    "with a limit": (runs("timeout", "30", "/drain.sh"), 30),
    "at once": (runs("true"), 0),
}


@pytest.mark.parametrize("hook", KNOWN)
@pytest.mark.parametrize("grace", [200, 660, 86_000])
def test_the_drain_has_what_the_pod_states_less_the_earlier_hook_and_the_reserve(hook: str, grace: int) -> None:
    """The sidecar asks for no more and no less, its hook outlasts its drain, and both end before the pod does."""
    before, takes = KNOWN[hook]
    of_the_pod, drain, waits = times(asked(grace, before)[0])

    assert (of_the_pod, drain) == (grace, grace - takes - RESERVE)
    assert drain < waits < of_the_pod - takes


@pytest.mark.parametrize("hook", KNOWN)
def test_a_pod_that_states_none_gets_a_minute_behind_its_hook(hook: str) -> None:
    before, takes = KNOWN[hook]

    assert times(asked(None, before)[0])[:2] == (takes + 70, 60)


UNKNOWN = {
    "a program": runs("/drain"),
    "a loop": runs("sh", "-c", "while curl -s localhost:8000/metrics | grep -q running; do sleep 1; done"),
    "a sleep behind the scenes": runs("sh", "-c", "sleep 5 & /drain"),
    "a variable": runs("sh", "-c", "sleep $SECONDS"),
    "half a quote": runs("sh", "-c", "sleep '5"),
}


@pytest.mark.parametrize("hook", UNKNOWN)
@pytest.mark.parametrize(("stated", "grace", "drain"), [(None, 100, 60), (300, 600, 290)])
def test_a_hook_that_no_word_times_may_take_all_that_it_had_and_the_drain_as_much_again(
    hook: str, stated: int | None, grace: int, drain: int
) -> None:
    spec, done = asked(stated, UNKNOWN[hook])

    assert times(spec)[:2] == (grace, drain)
    assert f"  its preStop hook may take {stated or 30} s, so the pod's grace becomes {grace} s" in "\n".join(
        done.lines
    )


@pytest.mark.parametrize(
    ("grace", "hook", "told"),
    [
        (0, None, "its terminationGracePeriodSeconds is 0, which leaves -10 s for the drain"),
        (25, None, "its terminationGracePeriodSeconds is 25, which leaves 15 s for the drain: more than 15"),
        (660, runs("sleep", "650"), "its terminationGracePeriodSeconds is 660 and its preStop hook takes 650 s, which leaves 0 s"),
        (660, runs("sleep", "650"), "state 676 to 87060"),
        (90_000, None, "which leaves 89990 s for the drain: more than 15 and at most 86400"),
    ],
)  # fmt: skip
def test_a_grace_in_which_no_drain_fits_is_refused_with_the_number(grace: int, hook: Any, told: str) -> None:
    _, done = asked(grace, hook)

    assert told in "\n".join(done.refused)


def test_the_shortest_grace_that_is_taken_is_the_number_that_was_told() -> None:
    assert times(asked(26)[0])[:2] == (26, 16)


@pytest.mark.parametrize("chosen", [PodSettings(config_map="mine"), PodSettings(plain=True), PodSettings(hook="none")])
def test_the_drain_is_the_pods_in_every_way(chosen: PodSettings) -> None:
    """Also where a ConfigMap of many pods states another, and where no hook asks for it."""
    spec, _ = asked(660, None, chosen)
    (sidecar,) = [
        one
        for one in (*spec.get("initContainers", ()), *spec["containers"])
        if one["name"] == "sidecar"
    ]  # fmt: skip
    variables = {each["name"]: each.get("value") for each in sidecar["env"]}

    assert (spec["terminationGracePeriodSeconds"], variables["SIDECAR__SHUTDOWN__GRACE_SECONDS"]) == (660, "650")


@pytest.mark.parametrize(
    "first",
    [
        ["sh", "-c", 'printf "%s|" "$0" "one two" "$HOME"; exit 3', "it's"],
        ["printf", "%s|", "a b", 'c"d', "$e", "*"],
        ["true"],
        ["false"],
        ["no-such-tool"],
    ],
    ids=["a shell", "words", "nothing", "it fails", "it is missing"],
)
def test_a_hook_that_was_there_runs_first_with_its_own_words_and_ours_whatever_it_gives(
    first: list[str], tmp_path: Path
) -> None:
    """By a real shell; ours only notes its words."""
    spec, _ = asked(None, runs(*first))
    script = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    ours = HOOKS["curl"](65)
    assert script[-len(ours) :] == ours
    there = tmp_path / "curl"
    there.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done > "$NOTED"\n')
    there.chmod(0o755)
    noted = tmp_path / "noted"
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NOTED": str(noted), "HOME": "/root"}
    said = subprocess.run(script, env=env, capture_output=True, text=True, check=False, timeout=20)
    alone = (
        subprocess.run(first, env=env, capture_output=True, text=True, check=False)
        if first != ["no-such-tool"]
        else None
    )

    assert noted.read_text().splitlines() == ours[1:]
    assert said.stdout == (alone.stdout if alone else "")


def test_a_sleep_that_was_there_is_slept_first() -> None:
    command = asked(None, {"sleep": {"seconds": 7}})[0]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]

    assert command[-len(HOOKS["curl"](0)) - 2 :] == ["sleep", "7", *HOOKS["curl"](65)]


def test_a_hook_that_is_a_request_stays() -> None:
    hook = {"httpGet": {"path": "/bye", "port": 1}}
    spec, done = asked(None, hook)

    assert spec["containers"][0]["lifecycle"] == {"preStop": hook}
    assert "  its preStop hook is a request and stays as it is; the sidecar drains from SIGTERM on" in done.lines
