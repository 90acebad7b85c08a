"""The texts that people see, case by case: pages of a pod, `diagnose`, `doctor`, and manifests through `inject` and out again.

No case knows which text is right: that is recorded (`record.py`).
"""

import io
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from difflib import unified_diff
from functools import cache, partial
from unittest.mock import patch

from sidecar.cli import main
from sidecar.commands.doctor.doctor_command import as_text
from sidecar.commands.doctor.examination import examine
from tests.commands.doctor.breaks import BREAKS, SHOWS_NOTHING, TOLD
from tests.commands.doctor.sound_evidence import sound
from tests.goldens.pods import LIVES, pages
from tests.support.kustomize import MANIFESTS


Shown = Mapping[str, str]
"""Surface to text."""


def ran(words: Sequence[str], given: str = "") -> tuple[str, str]:
    """The output of a command, and its error output with its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", io.StringIO(given)):
        code = main([*words])
    return out.getvalue(), f"{err.getvalue()}exit code {code}\n"


# --- `diagnose` by hand ----------------------------------------------------------------------------------------------------

QUEUED = "--ttft-p99=5s --queue-p99=4.8s --tpot-p99=40ms"
DUMP = "--ttft-p99=3.2s --tpot-p99=80ms --rate=60 --prompt-mean=2200 --output-mean=180 --model-size=13b --gpus=2xA100"
SLOW_TOKENS = "--e2e-p99=8s --ttft-p99=200ms --tpot-p99=250ms"
BY_HAND = (
    DUMP,
    f"{DUMP} --all",
    "--ttft-p99=200ms --tpot-p99=80ms --model-size=70b --gpus=4xH100",
    f"{QUEUED} --running=96 --slots=96 --prompt-mean=2400 --prompt-mean-before=800 --kv-usage=97% --all",
    f"{QUEUED} --running=96 --slots=96 --kv-usage=55% --engine=vllm",
    f"{QUEUED} --regime=steady --all",
    f"{QUEUED} --regime=spike --rejected=37",
    "--ttft-p99=5s --queue-p99=4s --tpot-p99=60ms --kv-usage=99% --preemptions=3/s",
    "--ttft-p99=5s --queue-p99=300ms --prefill-p99=200ms --tpot-p99=40ms",
    "--e2e-p99=8s --ttft-p99=7s --tpot-p99=50ms --all",
    f"{SLOW_TOKENS} --all",
    f"{SLOW_TOKENS} --running=64 --kv-usage=96% --engine=sglang",
    "--ttft-p99=300ms --tpot-p99=20ms",
    "--ttft-p99=300ms --tpot-p99=20ms --rejected=37",
    "--e2e-p99=8s",
    "--ttft-p99=5s --queue-p99=9s --tpot-p99=40ms",
)


def by_hand(flags: str) -> Shown:
    return {"diagnose": "".join(ran(["diagnose", *shlex.split(flags)]))}


# --- `doctor` --------------------------------------------------------------------------------------------------------------


CHANGES = {"sound": lambda _evidence: None, **BREAKS, **SHOWS_NOTHING, **TOLD}


def _examined(name: str) -> list[str]:
    evidence = sound()
    CHANGES[name](evidence)
    return as_text(examine(evidence), 100).splitlines()


_sound = cache(lambda: {*_examined("sound")})


def chain(name: str) -> Shown:
    """The sound chain whole; of another, the lines that a sound one has not."""
    return {"doctor": "\n".join(line for line in _examined(name) if name == "sound" or line not in _sound())}


# --- manifests -------------------------------------------------------------------------------------------------------------

ATTACHED_BEFORE = MANIFESTS.parent / "attached_before"
IMAGE = "--image=registry.example.com/llm-phase-sidecar:1"
ONLY_LABELLED = "canary-beside"
WAYS = (
    "deployment --plain --hook=python3",
    "deployment --config-map=llm --cpu=100m:1 --memory=128Mi --no-service",
    "network-policy --scraper=team=monitoring --mesh-port=15008",
)
"""A manifest, and flags."""


def asked(name: str, *flags: str) -> list[str]:
    return ["inject", IMAGE, *flags, *([] if name == ONLY_LABELLED else ["--all"])]


def difference(before: str, after: str) -> str:
    """The changed lines; nothing where nothing was written."""
    return (
        "" if not after else "\n".join([*unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)][2:])
    )


def attached(way: str) -> Shown:
    """The words and changes of `inject`, the way past the sidecar, and the words of `uninject` with what it leaves changed."""
    name, *flags = way.split()
    given = (MANIFESTS / f"{name}.yaml").read_text()
    text, said = ran(asked(name, *flags), given)
    shown = [said, difference(given, text), *ran(["bypass"], text), *ran(["bypass", "--back"], text)]
    back, said = ran(["uninject"], text)
    return {"inject": "\n".join([*shown, said, difference(given, back)])}


def attached_before(name: str) -> Shown:
    """A manifest that an earlier tree attached, given to `inject` again, and to `uninject`."""
    given = (ATTACHED_BEFORE / f"{name}.yaml").read_text()
    text, said = ran(asked(name), given)
    back, told = ran(["uninject"], given)
    return {
        "inject": "\n".join(
            [said, difference(given, text), told, difference((MANIFESTS / f"{name}.yaml").read_text(), back)]
        )
    }


CASES: dict[str, Callable[[], Shown]] = {
    **{f"life: {life}": partial(pages, life) for life in LIVES},
    **{f"by hand: {flags}": partial(by_hand, flags) for flags in BY_HAND},
    **{f"chain: {name}": partial(chain, name) for name in CHANGES},
    **{f"manifest: {path.stem}": partial(attached, path.stem) for path in sorted(MANIFESTS.glob("*.yaml"))},
    **{f"manifest: {way}": partial(attached, way) for way in WAYS},
    **{
        f"attached before: {path.stem}": partial(attached_before, path.stem)
        for path in sorted(ATTACHED_BEFORE.glob("*.yaml"))
    },
}
