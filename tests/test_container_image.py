"""Checks of the Dockerfile that need no Docker engine: its text, instruction by instruction.

They do not build the image: `make release` does, and test_image_live.py runs what it built.
"""

import json
import re

from tests.support.dockerfile import CHECKOUT, stages
from tools.wheels import image_python


BUILD_TOOLS = re.compile(r"\b(apt|apt-get|gcc|g\+\+|clang|make|cmake|build-essential|python3?-dev|git|curl|wget)\b")


def test_the_image_that_runs_is_slim_and_has_no_build_tools() -> None:
    """Both stages are the same Python on the same Debian, that of the machine on which the wheel is proved."""
    *_, last = stages()

    assert len(stages()) == 2
    assert {stage.image for stage in stages()} == {f"python:{image_python()}-slim-bookworm"}
    assert [command for command in last.all("RUN") if BUILD_TOOLS.search(command)] == []
    assert all("--no-index" in command and "uninstall --yes pip" in command for command in last.all("RUN"))


def test_every_package_of_the_image_is_locked_by_its_hash() -> None:
    """One command asks the index, and takes nothing but what the lock names; all others are kept from the index."""
    commands = [part for stage in stages() for run in stage.all("RUN") for part in run.split("&&") if "pip " in part]
    asking = [each for each in commands if "--no-index" not in each and "uninstall" not in each]

    (download,) = asking
    assert {"--require-hashes", "--only-binary=:all:", "requirements.lock"} <= set(download.split())
    assert len(commands) == 5


def test_the_image_that_runs_holds_wheels_of_the_first_stage_and_no_source() -> None:
    *_, last = stages()

    assert last.all("COPY") + last.all("ADD") == []


def test_its_sidecar_is_the_compiled_wheel_as_make_wheels_makes_it() -> None:
    first, _ = stages()
    *_, built = first.all("RUN")
    _, made, wheels = built.split(" && ")

    assert made == "python tools/wheels.py compiled /built"
    assert wheels.endswith('--wheel-dir /wheels "$(echo /built/*.whl)[grpc]"')


def test_it_runs_as_a_numeric_user_that_is_not_root() -> None:
    """Kubernetes' runAsNonRoot refuses an image whose user is a name, because a name could be root's."""
    *_, last = stages()
    *_, user = last.all("USER")
    uid, gid = user.split(":")

    assert int(uid) > 0
    assert int(gid) > 0
    assert "RUN" not in [name for name, _ in last.instructions[last.instructions.index(("USER", user)) :]]


def test_the_sidecar_is_process_one_and_gets_the_signals() -> None:
    """A shell in between would not pass on SIGTERM, and streams would be killed instead of drained."""
    *_, last = stages()

    assert [json.loads(argument) for argument in last.all("ENTRYPOINT")] == [["sidecar", "serve"]]
    assert last.all("EXPOSE") == ["8900 9901"]


def test_the_build_context_is_an_allow_list_that_holds_just_what_is_copied() -> None:
    ignore = [
        line for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")
    ]
    copied = {source for stage in stages() for argument in stage.all("COPY") for source in argument.split()[:-1]}

    assert ignore[0] == "*"
    assert copied == {line[1:] for line in ignore if line.startswith("!")}
    assert all((CHECKOUT / source).exists() for source in copied)
