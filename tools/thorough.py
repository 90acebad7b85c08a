"""`python -m tools.thorough`, or `make thorough`: all that is too long for each landing, part by part, with a record of each that passed.

A part is a command, and the files on which its result depends. Its key is a hash of both. A part that passes leaves a record
with its key in docs/evidence/thorough/, and is skipped for as long as the tree has the same key: so the whole can be done in several
sittings, on several machines. A part that fails leaves nothing, and the others go on. Records are committed like any other file, and no
key depends on one.

It knows commands and files. It refuses to know what a command measures: the last line that a command prints is its result.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path

from bench import machine
from tests.support.finds import FINDS_ALONE


CHECKOUT = Path(__file__).parents[1]
RECORDS = "docs/evidence/thorough"
WRITTEN_BY_PARTS = (RECORDS, "docs/evidence/landing", "tests/alert_rules/mutants/record.json")
"""In no key: else a part would change its own key."""
LOGS = ".cache/thorough"
MOST_MINUTES = 115
"""The time of all parts that need a clock, on two cores. The others run beside those of them that are not played alone."""
SAY_EVERY_SECONDS = 60.0
PATIENT = {"PYTEST_TIMEOUT": "1200"}
"""For parts beside others, which may get next to nothing of the processor for minutes."""
TOLD_LINES = 40
"""The end of the output of a part that failed."""
HELP = """\
Runs each part whose record is not of this tree, those that measure on all cores first, and records it in
docs/evidence/thorough/ if it passed. Commit the records. What was interrupted goes on with the next run.

  make thorough                         all that is not fresh: 115 minutes of clocks on two idle cores, the rest beside and after
  make thorough ARGS=--status           what is fresh, stale or missing, and what each part gave
  make thorough ARGS="--status --whole" the same, with exit code 1 unless all are fresh: before an issue is handed over as done
  make thorough ARGS="--only vllm"      one part, fresh or not; several with commas

.ci/install --thorough brings what the parts need. Output is in .cache/thorough/NAME.log. Exit code 1 if a part failed, or a record
cannot be read."""


# --- the table -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One row."""

    name: str
    minutes: int
    """The time on a machine with two cores."""
    command: str
    paths: tuple[str, ...]
    """Files and folders below the checkout on which the result depends, as git's pathspecs. What they import need not be named."""
    without: tuple[str, ...] = ()
    """Folders that are imported on the way, and on which the result does not depend."""
    records: str = RECORDS
    """The folder of its record."""
    needs_clock: bool = True
    """Whether it waits for clocks or measures: such parts run one after the other. The others need a processor only, and run beside
    them at idle priority."""
    alone: bool = False
    """Whether it measures on all cores: such parts come first, with nothing beside them. A part at idle priority still takes caches, and on
    many machines half of a core, from what is measured."""
    python: str = ""
    """The Python that it needs besides that of .venv, such as 3.12. It is left out where there is none."""


PACKED = ("pyproject.toml", "hatch_build.py", "tools/wheels.py", "Dockerfile", "requirements.lock")
FETCHED = ("tests/conftest.py", ".ci", ":!.ci/run")
"""How tests are run, and what fetches the programs that judge: not the list of what is played."""
PLAYED = ("sidecar", *PACKED, "alert_rules", "grafana", "deploy", *FETCHED)
"""The product, the files that it carries, and what judges it."""
ON_THE_WHEEL = (*PLAYED, "tools/prove.py", "tools/only_compiled.py")
REAL = (*PLAYED, "tests/real", "tests/streams", "docs/quickstart.md")

PARTS = (
    Part(
        "live",
        22,
        'make test-live ARGS="--ignore=tests/garden --ignore=tests/test_doc_commands.py"',
        (
            *(
                *PLAYED,
                "tests/*_live.py",
                "tests/browser",
                "tests/commands/demo",
                "tests/streams",
                "tests/test_attribution.py",
            ),
            *("tests/test_drains_bench.py", "tests/test_idle_edge_bench.py", "tests/test_pages.py"),
        ),
    ),
    Part("garden", 1, "make garden", (*PLAYED, "tests/garden")),
    Part(
        "commands-of-pages",
        3,
        "make test-live ARGS=tests/test_doc_commands.py",
        (*PLAYED, "tests/test_doc_commands.py", "docs", "*.md"),
    ),
    Part(
        "vllm",
        25,
        "make test-engines ARGS=\"-k 'test_vllm and not test_vllm_pages and not test_mixed'\"",
        REAL,
        alone=True,
    ),
    Part("vllm-pages", 10, 'make test-engines ARGS="-k test_vllm_pages"', REAL, alone=True),
    Part(
        "llama-cpp",
        1,
        "make test-engines ARGS=\"-k '(test_llama_cpp or test_triton or test_rotel) and not test_mixed'\"",
        REAL,
    ),
    # The mocker sleeps: its tests pass beside others too, or say that they were not measured.
    Part("dynamo", 9, 'make test-engines ARGS="-k test_dynamo"', REAL, needs_clock=False),
    Part("mixed-clients", 15, "make test-engines ARGS=tests/real/test_mixed_clients.py", REAL, alone=True),
    Part("first-page", 9, 'make bench-first-page ARGS="--runs 1"', (*PLAYED, "bench/first_page.py"), alone=True),
    Part("soak", 11, 'make prove ARGS="--long --only=soak"', (*ON_THE_WHEEL, "bench/soak")),
    Part("splits", 11, 'make prove ARGS="--long --only=splits"', (*ON_THE_WHEEL, "bench/soak")),
    Part("fairness", 3, "make fairness ARGS=--quick", (*PLAYED, "bench/fairness"), alone=True),
    Part("bounds", 2, "make bounds", (*PLAYED, "bench/bounds"), alone=True),
    Part("peers", 2, "make bench ARGS=--check", (*PLAYED, "bench/peers"), alone=True),
    Part(
        "mutants", 13, "make mutants", ("alert_rules", "tests/alert_rules/mutants", "pyproject.toml"), needs_clock=False
    ),
    Part("wheel", 8, "make test-wheel", (*ON_THE_WHEEL, "tests"), needs_clock=False),
    Part("dashboards-drawn", 3, "make dashboards-drawn", (*PLAYED, "tests/drawn"), needs_clock=False),
    Part(
        "incidents-sample",
        9,
        'make bench-incidents ARGS="--sample --profile=both"',
        (*PLAYED, "bench/incidents"),
        needs_clock=False,
    ),
    Part("health", 60, "make bench-incidents ARGS=--health", (*PLAYED, "bench/incidents"), needs_clock=False),
    Part(
        "benches",
        4,
        "make test-benches ARGS=--timeout=1200",
        (
            *PLAYED,
            *("tests/commands/capacity", "tests/commands/demo", "tests/commands/export", "tests/commands/simulator"),
            *("tests/incidents", "tests/tools/test_scaling_query.py"),
        ),
        needs_clock=False,
    ),
    Part(
        "more-of-the-suite",
        10,
        "make test-more",
        (*PLAYED, "tests/alert_rules", "tests/histories", "tests/test_hostile_labels.py", "tests/commands/export"),
        needs_clock=False,
    ),
    Part(
        "release",
        25,
        "make release",
        (
            *PLAYED,
            "README.md",
            "LICENSE",
            "tools",
            "tests/test_image_live.py",
            "tests/test_first_page_live.py",
            "tests/test_chart.py",
        ),
        needs_clock=False,
    ),
    Part("fuzz", 10, "make fuzz ARGS=--minutes=10", (*PLAYED, "tests/fuzz"), needs_clock=False),
    # Random examples fail nothing: what is found was there before. The finds are printed as lines for a test, and counted in the result.
    Part(
        "random-examples",
        10,
        f".ci/random || [ $? = {FINDS_ALONE} ]",
        (*PLAYED, ".ci/random", "tests"),
        needs_clock=False,
    ),
    *(
        Part(f"suite-{python}", 6, f".ci/minor {python}", (".",), needs_clock=False, python=python)
        for python in ("3.12", "3.13")
    ),
)


_NOT_MEASURED = re.compile(r"\b[1-9][0-9]* not measured")
"""A result with these words leaves no record: nothing was shown."""


# --- keys ------------------------------------------------------------------------------------------------------------------

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.MULTILINE
)


def files_of(paths: Sequence[str], checkout: Path = CHECKOUT, without: Sequence[str] = ()) -> list[str]:
    """The files below these paths (git's pathspecs) that git knows or would add, and all modules that they import. Sorted.

    Those that parts write are left out, and those below `without` with what they alone import. Raises subprocess.CalledProcessError where there is no repository.
    """
    listing = ["git", "-C", str(checkout), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    told = subprocess.run(listing, capture_output=True, check=True).stdout.decode()  # noqa: S603  the table's own words
    found = {name for name in told.split("\0") if name and os.path.lexists(checkout / name)}
    left_out = tuple(f"{folder}/" for folder in without)
    left = [name for name in found if name.endswith(".py")]
    while left:
        more = {name for name in imported(left.pop(), checkout) - found if not name.startswith(left_out)}
        found |= more
        left += more
    return sorted(name for name in found if not _is_written_by_a_part(name))


@cache
def imported(name: str, checkout: Path = CHECKOUT) -> frozenset[str]:
    """The files of the checkout that this module imports: modules, and the `__init__.py` of each package on the way to them."""
    modules = set[str]()
    for source, names, plain in _IMPORT.findall((checkout / name).read_text()):
        modules |= {each.split()[0] for each in plain.split(",") if each.strip()}
        members = re.sub(r"#.*", "", names).strip("()").split(",")
        modules |= {source, *(f"{source}.{each.split()[0]}" for each in members if each.strip())} if source else set()
    found = set[str]()
    for module in modules:
        parts = module.split(".")
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            found |= {each for each in (f"{path}.py", f"{path}/__init__.py") if (checkout / each).is_file()}
    return frozenset(found)


def _is_written_by_a_part(name: str) -> bool:
    return any(name == written or name.startswith(f"{written}/") for written in WRITTEN_BY_PARTS)


def key_of(part: Part, checkout: Path = CHECKOUT) -> str:
    """A hash of the part's command, with the recipes of its make targets, of the minor version of Python, and of each of its files: name, mode
    and bytes. The versions of packages and of other programs are in no key: a new one comes with a new machine, every day.
    """
    minor = "{}.{}".format(*sys.version_info)
    found = sha256("\0".join([part.command, minor, *recipes(part.command, checkout)]).encode())
    for name in files_of(part.paths, checkout, part.without):
        path = checkout / name
        link = path.is_symlink()
        mode = "link" if link else "program" if path.stat().st_mode & 0o100 else "file"
        content = str(path.readlink()).encode() if link else path.read_bytes()
        found.update(f"\0{name}\0{mode}\0{sha256(content).hexdigest()}".encode())
    return found.hexdigest()


def recipes(command: str, checkout: Path = CHECKOUT) -> list[str]:
    """The text of the Makefile for each target that the command names, and of all targets and variables that these name in turn.

    A new text of `make help` makes nothing stale.
    """
    makefile = checkout / "Makefile"
    text = re.sub(r"\\\n\s*", " ", makefile.read_text()) if makefile.exists() else ""
    left, found = re.findall(r"\bmake (?:-\S+ )*(\S+)", command), dict[str, str]()
    while left:
        name = left.pop()
        if name not in found:
            of_target = rf"^{re.escape(name)}:(?!=)([^#\n]*).*\n((?:\t.*\n)*)|^{re.escape(name)} *[?:]?= *(.*)$"
            found[name] = "\n".join("".join(groups) for groups in re.findall(of_target, text, re.MULTILINE))
            left += re.findall(r"[\w./-]+", found[name])
    return [f"{name}: {told}" for name, told in sorted(found.items()) if told]


# --- records ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """A part that passed leaves one."""

    part: str
    key: str
    command: str
    when: str
    """Its end, in UTC, to the minute."""
    machine: str
    seconds: int
    result: str


def record_of(part: Part, checkout: Path = CHECKOUT) -> Record | None:
    """None where there is none. Raises ValueError for one that is not whole, or of another part."""
    path = checkout / part.records / f"{part.name}.json"
    if not path.exists():
        return None
    where = path.relative_to(checkout)
    try:
        told = json.loads(path.read_text())
        record = Record(**told) if isinstance(told, dict) else None
    except (json.JSONDecodeError, TypeError) as error:
        raise ValueError(f"{where} is no record: {error}") from error
    if record is None:
        raise ValueError(f"{where} is no record: it is no object")
    right = {each.name: type(getattr(record, each.name)) is each.type for each in fields(Record)}
    right["part"] &= record.part == part.name
    right["key"] &= re.fullmatch(r"[0-9a-f]{64}", str(record.key)) is not None
    if wrong := [name for name, holds in right.items() if not holds]:
        raise ValueError(f"{where} is no record: wrong is {', '.join(wrong)}")
    return record


def write(record: Record, folder: Path = CHECKOUT / RECORDS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{record.part}.json").write_text(json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n")


def faults(parts: Iterable[Part] = PARTS, checkout: Path = CHECKOUT) -> list[str]:
    """Records that are not whole, and files beside them that belong to no part."""
    parts = tuple(parts)
    found = []
    for part in parts:
        try:
            record_of(part, checkout)
        except ValueError as error:
            found.append(str(error))
    names = {f"{part.name}.json" for part in parts}
    files = sorted({path.relative_to(checkout) for part in parts for path in (checkout / part.records).glob("*")})
    return found + [f"{path} belongs to no part: delete it" for path in files if path.name not in names]


def state_of(part: Part, checkout: Path = CHECKOUT) -> str:
    """`fresh`, `stale` or `missing`."""
    record = record_of(part, checkout)
    if record is None:
        return "missing"
    return "fresh" if record.key == key_of(part, checkout) else "stale"


def status(parts: Iterable[Part] = PARTS, checkout: Path = CHECKOUT) -> str:
    """A line for each part, and how many are fresh."""
    rows, fresh, left = [], 0, 0
    for part in parts:
        state, record = state_of(part, checkout), record_of(part, checkout)
        told = "" if record is None else f"{record.when}  {record.seconds / 60:3.0f} min  {record.result}"
        rows.append(f"{part.name:18} {state:8} {part.minutes:3} min  {told}".rstrip())
        fresh += state == "fresh"
        left += part.minutes * (state != "fresh" and part.needs_clock)
    rows.append(f"{fresh} of {len(rows)} parts are fresh; those that need a clock and are not take {left} minutes")
    return "\n".join(rows)


# --- runs ------------------------------------------------------------------------------------------------------------------


def is_here(python: str) -> bool:
    """Whether this machine has that Python, as .ci/minor looks for it."""
    asked = [str(CHECKOUT / ".ci/minor"), python, "--where"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0  # noqa: S603  the table's own words


@dataclass
class Run:
    """The parts that are played now. Two threads share it: one plays what needs a clock, the other what needs none."""

    checkout: Path = CHECKOUT
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _began_at: dict[str, float] = field(default_factory=dict)
    _playing: dict[str, tuple[Part, "subprocess.Popen[bytes]"]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def all(self, parts: Sequence[Part]) -> None:
        """Play them, and return when all have ended. What is interrupted is stopped with its children."""
        with ThreadPoolExecutor(2) as pool:
            telling = pool.submit(self._tell, parts)
            beside: Future[None] | None = None
            try:
                self._each([part for part in parts if part.alone])
                beside = pool.submit(self._each, [part for part in parts if not part.needs_clock])
                self._each([part for part in parts if part.needs_clock and not part.alone])
                beside.result()
            finally:
                self._over.set()
                while beside is not None and not beside.done():
                    for _, process in list(self._playing.values()):
                        _stop(process)
            telling.result()

    def playing(self) -> list[str]:
        """The parts that are played now, sorted by name."""
        return sorted(self._playing)

    def _each(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if self._over.is_set():
                return
            self._play(part)

    def _play(self, part: Part) -> None:
        key, log = key_of(part, self.checkout), self.checkout / LOGS / f"{part.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        say(f"== {part.name}: {part.command}   ({part.minutes} min, {log.relative_to(self.checkout)})")
        began_at = self._began_at[part.name] = time.monotonic()
        with log.open("wb") as output:
            # A group of its own, so that its end takes its children along.
            process = subprocess.Popen(  # noqa: S603  the table's own words
                [
                    *([] if part.needs_clock else ["ionice", "-c", "3", "chrt", "--idle", "0"]),
                    "bash",
                    "-euc",
                    part.command,
                ],
                cwd=self.checkout,
                env=environment() if part.needs_clock else environment() | PATIENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._playing[part.name] = part, process
            if not part.needs_clock:
                _yields_to_other_sessions(process.pid)
            most_minutes = 2 * part.minutes + 5 if part.needs_clock else MOST_MINUTES
            try:
                code: int | str = process.wait(60 * most_minutes)
            except subprocess.TimeoutExpired:
                code = f"it was stopped after {most_minutes} minutes"
            finally:
                _stop(process)
                del self._playing[part.name]
        if self._over.is_set():
            return
        self._judge(part, key, code, round(time.monotonic() - began_at), log)

    def _judge(self, part: Part, key: str, code: int | str, seconds: int, log: Path) -> None:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip("= ")]
        if code == 0 and key_of(part, self.checkout) != key:
            code = "its files were changed while it ran"
        if code == 0 and lines and (unmeasured := _NOT_MEASURED.search(lines[-1])):
            code = f"{unmeasured[0]}, because this machine was busy: run it again when it is not"
        if code != 0:
            self.failed.append(part.name)
            end = "\n".join(f"   {line}" for line in lines[-TOLD_LINES:])
            say(
                f"{end}\n== {part.name} FAILED after {seconds / 60:.1f} min: {code if isinstance(code, str) else f'exit code {code}'}"
            )
            return
        result = lines[-1].strip("= ") if lines else ""
        write(Record(part.name, key, part.command, minute(), machine.named(), seconds, result), self.checkout / RECORDS)
        self.passed.append(part.name)
        say(f"== {part.name} passed in {seconds / 60:.1f} of {part.minutes} min: {result}")

    def _tell(self, parts: Sequence[Part]) -> None:
        while not self._over.wait(SAY_EVERY_SECONDS):
            now = time.monotonic()
            at = [
                f"{part.name} {(now - self._began_at[name]) / 60:.0f} of {part.minutes} min"
                for name, (part, _) in list(self._playing.items())
            ]
            say(f"   {'; '.join(at)}; {len(self.passed) + len(self.failed)} of {len(parts)} parts done")


def minute() -> str:
    """The time in UTC to the minute, for people."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")  # noqa: TID251  a date for people


def environment() -> dict[str, str]:
    """The variables of a part: with `CI` a missing tool fails instead of skipping. What `make` hands on to its children is taken away: else the
    targets of a part would get the ARGS of `make thorough`.
    """
    of_make = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "ARGS")
    return {name: value for name, value in os.environ.items() if name not in of_make} | {"CI": "true"}


def _yields_to_other_sessions(pid: int) -> None:
    """Linux shares the processor among sessions first (`sched_autogroup_enabled`): an idle priority counts within one session alone, and a
    part that has a session of its own would get half of the processor beside one that needs a clock.
    """
    with suppress(OSError):  # a kernel without such groups
        Path(f"/proc/{pid}/autogroup").write_text("19")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End the process and its children, which are of its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(10)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def chosen(parts: Sequence[Part], only: str, checkout: Path = CHECKOUT) -> list[Part]:
    """The parts to play; says of each other one why it is left out."""
    names = only.split(",") if only else []
    found = []
    for part in parts:
        if names and part.name not in names:
            continue
        if part.python and not is_here(part.python):
            say(f"== {part.name}: left out, there is no Python {part.python} here")
        elif not names and state_of(part, checkout) == "fresh":
            record = record_of(part, checkout)
            assert record is not None
            say(f"== {part.name}: fresh, skipped: passed on {record.when}: {record.result}")
        else:
            found.append(part)
    return found


def main(arguments: Sequence[str] | None = None, parts: Sequence[Part] = PARTS, checkout: Path = CHECKOUT) -> int:
    parser = argparse.ArgumentParser(
        prog="make thorough", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--status", action="store_true", help="play nothing: which parts are fresh, stale or missing")
    parser.add_argument("--whole", action="store_true", help="with --status: exit code 1 unless all are fresh")
    parser.add_argument(
        "--only",
        default="",
        metavar="NAMES",
        help="these parts, fresh or not: " + ", ".join(part.name for part in parts),
    )
    asked = parser.parse_args(arguments)
    if unknown := sorted({*asked.only.split(",")} - {"", *(part.name for part in parts)}):
        parser.error(
            f"--only: there is no part {', '.join(unknown)}; there are {', '.join(part.name for part in parts)}"
        )
    if wrong := faults(parts, checkout):
        say("\n".join(wrong))
        return 1
    if asked.status:
        say(status(parts, checkout))
        return 1 if asked.whole and any(state_of(part, checkout) != "fresh" for part in parts) else 0
    run = Run(checkout)
    run.all(chosen(parts, asked.only, checkout))
    say(f"\n{status(parts, checkout)}")
    if run.failed:
        say(
            f"FAILED: {', '.join(run.failed)}. Nothing is recorded of these. If a tool is missing: .ci/install --thorough"
        )
    return 1 if run.failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("make thorough: told to stop"))  # or its children would live on
    sys.exit(main())
