"""Writes docs/promises.md: each promise about traffic, its figure, and the test or the command that shows it.

Knows the promises. Each figure other than 0 is taken from the limit, the bench or the test that holds it. Refuses to know
measured values: those are in docs/evidence/, with their date and machine.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from bench.bounds import added_latency, leaving, memory, wrong_passwords
from bench.drains import DRAINS
from bench.fairness.__main__ import ADDED_MS, COUNTS, MOST_MS, SIDES
from bench.idle_edge import POSTS, RESTART_SECONDS
from bench.soak.__main__ import SOAKED_STREAMS
from bench.soak.invariants import LEFT_BY_MANY_MIB, LEFT_MIB, OF_THE_LIMIT, SETTLE_SECONDS
from sidecar.health.watchdog import STUCK_SECONDS
from sidecar.pod.liveness.progress import PROVEN_SECONDS
from sidecar.pod.liveness.silence import BATCH_SECONDS, EXCUSE, STALL_SECONDS, UNKNOWN_ANSWER_SECONDS
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import FRAMING_ABOVE_BODY_BYTES
from sidecar.proxy.parser_check import READ_ANSWERS, READ_REQUESTS, REFUSED_ANSWERS, REFUSED_REQUESTS
from sidecar.proxy.read_limit import MOST_FED_BYTES, PARSE_SECONDS, TURN_BYTES
from tests.fuzz.__main__ import AN_HOUR_SECONDS
from tests.garden.chains import NOT_FOR
from tests.garden.garden import request_sequences
from tests.garden.hostile_answers import hostile_answers
from tests.support.in_tests import DRAINS_IN_TESTS, INVENTIONS, POSTS_IN_TESTS, RESTART_IN_TESTS_SECONDS
from tests.support.probes import ABSENT_SECONDS
from tools.markdown import table
from tools.prove import PROOFS
from tools.thorough import PARTS
from tools.wheels import image_python


GATE = Path(__file__).parents[1] / ".ci" / "run"


def gate_parts() -> dict[str, str]:
    """The commands that decide on a landing (`make test`), each with the rest of its line (`ARGS=--minutes=2`), and those that `make prove`
    runs on the wheel.
    """
    parts = dict(re.findall(r"^ ?\d+ (make \S+|\S+) ?(.*)$", GATE.read_text(), re.MULTILINE))
    on_the_wheel = {
        target.partition(" ARGS")[0]: "on the wheel"
        for proof in PROOFS
        for target in proof.on_the_sources.split(", ")
        if target
    }
    return (on_the_wheel if "make prove" in parts else {}) | parts


def thorough_parts() -> dict[str, str]:
    """As `gate_parts`, for the commands of `make thorough`."""
    return dict(re.findall(r"^(make \S+|\S+) ?(.*)$", "\n".join(part.command for part in PARTS), re.MULTILINE))


def _added(bound_ms: float) -> str:
    times, most_ms = added_latency.PLAIN_TIMES, added_latency.limit_ms(bound_ms, float("inf"))
    return (
        f"{bound_ms:g} ms, median of pairs; or {times} times what a plain relay of aiohttp adds beside it, where that is more, up to"
        f" {most_ms:g} ms"
    )


_PARSED = len(READ_ANSWERS) + len(READ_REQUESTS) + len(REFUSED_ANSWERS) + len(REFUSED_REQUESTS)
_REQUESTS = sum(1 for _ in request_sequences())
_ANSWERS = min(sum(answer.family not in families for answer in hostile_answers()) for families in NOT_FOR.values())
_WRITERS = sum(map(len, SIDES.values()))
_FUZZ_MINUTES = thorough_parts()["make fuzz"].rpartition("=")[2]
(_FUZZ_INPUTS,) = (
    f"{int(word.partition('=')[2]):,}" for proof in PROOFS for word in proof.words if word.startswith("--inputs=")
)

_SOAK_MINUTES = next(
    word.partition("=")[2]
    for proof in PROOFS
    if proof.name == "soak"
    for word in proof.words
    if word.startswith("--minutes=")
)

_BUILDS = """
## Which proof runs on which build

The image installs a compiled wheel, and `pip install .` of the sources runs pure Python. What is said of bytes is proved on both, with Python {python} alone: the image's, as the Dockerfile names it. On 3.12 and 3.13 `make thorough` runs the tests on the sources, where that Python is installed; no proof about the wheel runs there. `make prove` runs the middle column on that very wheel, in an environment that refuses every other build.

The fuzzer sees no branch of compiled code, and Python tells no calls of it. On the wheel libFuzzer draws from the inputs that runs on the sources have kept, guided by the branches of the checks alone; that work is linear in the bytes is shown on the sources, and on the wheel only that no input takes 20 s.

"""

_BEFORE = """# Promises

<!-- Written by `make docs`; a test holds the page to the code, and checks that each test and each target exists. -->

Each row is a promise to the clients and to the operators of an engine, with its figure and what shows it. A path is a test, which
`make test`, `make test-long` or `make thorough` runs. A `make` target measures: each change runs {in_gate}, those about bytes on the wheel that the image installs, soak for {soak_minutes} min and the same {fuzz_inputs} inputs in each fuzzer; `make thorough` also runs {in_thorough}; {by_hand} are for a person to run. A promise that is broken is a bug: please report it. Measured values, with their machine and their
date, are in [evidence/performance.md](evidence/performance.md). What the sidecar changes on the wire is in
[deviations.md](deviations.md), and what it does at its own limits in [budgets.md](budgets.md).
"""


@dataclass(frozen=True, slots=True)
class Promise:
    """One row. `shown_by`: tests as PATH::NAME (or a whole file), or `make` targets."""

    promise: str
    figure: str
    shown_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chapter:
    """The promises about one subject."""

    title: str
    promises: tuple[Promise, ...]


CHAPTERS = (
    Chapter(
        "The bytes",
        (
            Promise(
                "The client gets the engine's bytes, and the engine gets the client's, whatever their framing and their segments; every exception is in deviations.md.",
                "0 bytes differ",
                ("tests/proxy/test_transparency.py::test_what_goes_in_comes_out",),
            ),
            Promise(
                "An answer that breaks off never looks whole.",
                "0 look whole, in all framings",
                ("tests/proxy/test_transparency.py::test_a_response_that_breaks_off_never_looks_whole",),
            ),
            Promise(
                "If measuring fails, the client's bytes are the same, and the failure is counted.",
                "0 bytes differ, at every hook of the observer",
                ("tests/proxy/test_guard.py",),
            ),
            Promise(
                "No request is smuggled or split, and no client gets bytes of another one's answer: straight, behind nginx and behind HAProxy.",
                f"0 of {_REQUESTS:,} hostile requests, and of {_ANSWERS} hostile answers or more, in each chain",
                ("tests/garden/test_chains.py", "make garden"),
            ),
            Promise(
                "`Connection` names only options of its connection, and fields that an edge acts on have no twin with an underscore; all else is refused.",
                "0 pass",
                ("tests/proxy/test_wire.py", "tests/proxy/test_headers.py"),
            ),
            Promise(
                "`serve` does not start on an HTTP parser that reads what it must refuse.",
                f"{_PARSED} messages, whole and byte by byte",
                ("tests/proxy/test_parser_check.py",),
            ),
            Promise(
                "No input makes a parser raise, hold without a bound, or work more than in proportion to its length.",
                f"0 finds in the kept inputs; at each change the same {_FUZZ_INPUTS} drawn ones in each compiled parser; new ones are drawn for {_FUZZ_MINUTES} minutes in all of them in `make thorough`, for {AN_HOUR_SECONDS // 60} minutes each by hand",
                ("tests/fuzz/test_corpora.py", "make fuzz"),
            ),
        ),
    ),
    Chapter(
        "Requests",
        (
            Promise(
                "Every request ends in exactly one outcome, and after any mixture of faults no request is in flight.",
                "1 outcome for each request, 0 in flight",
                (
                    "tests/test_abort.py::test_after_any_mixture_of_faults_no_request_is_in_flight_and_outcomes_add_up_to_requests",
                    "tests/proxy/test_faults.py",
                ),
            ),
            Promise(
                "A client that leaves frees the engine at once, in every phase.",
                f"{leaving.BOUND_MS:g} ms at the p99, median of {leaving.ROUNDS} rounds",
                ("tests/test_abort.py::test_who_leaves_frees_the_engine_in_every_phase", "make bounds"),
            ),
            Promise(
                "At shutdown, a stream that fits the grace time is not cut, and requests that come late are served.",
                f"0 cut streams, over {DRAINS_IN_TESTS} drains in the tests and over {DRAINS} by hand",
                ("tests/proxy/test_wire_shutdown.py", "tests/test_drains_bench.py", "make drains"),
            ),
            Promise(
                "A request that meets the engine's close of an idle connection is sent once more if, and only if, the kernel proves that the engine never had it.",
                f"0 errors for such requests and 0 duplicates: {POSTS_IN_TESTS:,} requests in the tests, while the engine restarts every {RESTART_IN_TESTS_SECONDS:g} s; {POSTS:,} by hand, every {RESTART_SECONDS:g} s",
                ("tests/proxy/test_idle_edge.py", "tests/test_idle_edge_bench.py", "make idle-edge"),
            ),
            Promise(
                "While the engine is away, requests are answered at once with 503 and Retry-After, and the first one after its return is served.",
                f"`Retry-After: {Failure.ENGINE_REFUSED.value.retry_after_seconds}`; 0 requests fail after its return",
                (
                    "tests/proxy/test_pool_connecting.py::test_an_engine_that_goes_away_and_comes_back",
                    "tests/proxy/test_wire_sockets.py::test_no_listener",
                ),
            ),
            Promise(
                "A failure of the sidecar (files, memory, budgets, a late event loop) is never an outcome of the engine.",
                "0 outcomes `engine_*`",
                (
                    "tests/proxy/test_pool_connecting.py",
                    "tests/proxy/test_standstill.py",
                    "tests/real/test_standstill_live.py::test_a_stopped_process_blames_neither_its_engine_nor_a_client",
                    "tests/real/test_budget_live.py::test_an_attack_takes_nothing_from_other_clients",
                    "make soak",
                ),
            ),
            Promise(
                "Unfinished requests keep no place of those that are whole, and dripping ones throw out none that sends steadily: other clients are served.",
                "0 requests of others refused, uploads of 8 KiB every 0.3 s among them",
                (
                    "tests/proxy/test_gate.py",
                    "tests/proxy/test_places.py",
                    "tests/real/test_budget_live.py::test_an_attack_takes_nothing_from_other_clients",
                ),
            ),
        ),
    ),
    Chapter(
        "Delay and memory",
        (
            Promise(
                "The sidecar adds little to the time to first token.",
                _added(added_latency.TTFT_BOUND_MS),
                ("make bounds",),
            ),
            Promise(
                "The sidecar adds little to the way of each later event.",
                _added(added_latency.EVENT_BOUND_MS),
                ("make bounds",),
            ),
            Promise(
                "A reader that has stopped holds a bounded buffer.",
                f"{memory.BOUND_KIB:g} KiB of the process for each",
                ("make bounds",),
            ),
            Promise(
                "One connection is parsed for a bounded time in a turn of the event loop, whatever it sends; what it sends too much waits for a later turn.",
                f"about {PARSE_SECONDS * 1e6:.0f} us and {TURN_BYTES >> 10} KiB, in pieces of at most {MOST_FED_BYTES >> 10} KiB; by order under a fake clock",
                (
                    "tests/proxy/test_read_limit.py",
                    "tests/proxy/test_read_limit_relay.py",
                    "tests/proxy/test_read_limit_uvloop.py",
                ),
            ),
            Promise(
                "Whatever hostile clients or engines send, a token of another stream comes little later than without them, or than through nginx in the same place.",
                f"{ADDED_MS:g} ms at the p99, never more than {MOST_MS:g} ms; {_WRITERS} writers with {max(COUNTS)} connections each",
                ("make fairness",),
            ),
            Promise(
                "Framing (chunk sizes, extensions) gets no further ahead of its body than this, in either direction.",
                f"{FRAMING_ABOVE_BODY_BYTES // 1024} KiB",
                (
                    "tests/proxy/test_requests.py::test_framing_that_outweighs_its_body_by_64_kib_is_refused",
                    "tests/proxy/test_forward.py::test_an_answer_whose_framing_outweighs_its_body_by_64_kib_is_broken_off",
                ),
            ),
            Promise(
                "Attacks by legal requests stay within the shipped pod's memory, and twice each budget kills no process; `/metrics` and the probes answer throughout.",
                f"at most {OF_THE_LIMIT:.0%} of the manifest's limit, 0 probes unanswered",
                ("tests/real/test_budget_live.py", "make soak"),
            ),
            Promise(
                "After a burst, memory returns.",
                f"at most {LEFT_MIB} MiB more than before within {SETTLE_SECONDS:g} s; {LEFT_BY_MANY_MIB} MiB after a burst of pipelines, or of {SOAKED_STREAMS:,} streams with a fault a second",
                ("tests/real/test_budget_live.py", "make soak"),
            ),
            Promise(
                f"{wrong_passwords.PASSWORDS_PER_SECOND:,} wrong passwords a second at the admin port move no stream.",
                f"{wrong_passwords.BOUND_MS:g} ms at the p99 of the gaps, median of pairs",
                ("make bounds",),
            ),
        ),
    ),
    Chapter(
        "The engine's health",
        (
            Promise(
                "An engine that hangs while `/health` says 200 is told: `llm_engine_up` 0, a page, and a minute after the last output not ready. Where no answer is streamed, only an engine whose count of output tokens is read (vLLM, SGLang).",
                f"after a silence of more than {STALL_SECONDS:g} s and of {EXCUSE:g} times its pending prefill; of {EXCUSE * BATCH_SECONDS:g} s where its cost is not known and some other ever was, else of {UNKNOWN_ANSWER_SECONDS:g} s",
                ("tests/test_engine_stalls.py", "tests/real/test_vllm_stalls.py"),
            ),
            Promise(
                "A front end whose pool is gone, and that this process saw serve and list models, is told as an engine that is down: a page of phase `engine`, never of `queue`. Refusals alone never say so.",
                "3 checks, 2 s apart",
                ("tests/test_pool_gone.py",),
            ),
            Promise(
                "A health check that the sidecar cannot make, for want of files, memory or ports of its own, changes nothing of the engine's state.",
                "0 changes",
                (
                    "tests/engines/probe/test_probe.py::test_a_check_that_could_not_be_made_says_nothing_about_the_engine",
                ),
            ),
            Promise(
                "An engine whose count of output tokens is read (vLLM, SGLang), and that is busy, idle, loading, or whose clients do not read, is not taken for one that hangs.",
                "0 claims",
                ("tests/pod/liveness/test_progress.py", "tests/real/test_vllm_stalls.py"),
            ),
            Promise(
                "An engine without such a count is never restarted for a stall, and Ollama has time to load a model.",
                f"0 proofs; {UNKNOWN_ANSWER_SECONDS:g} s",
                ("tests/pod/liveness/test_progress.py", "tests/test_engine_stalls.py"),
            ),
            Promise(
                "`/-/engine` answers 503 only for a silence that is proven beyond the pending work, in which a stream that had begun stands still, and the sidecar's absence does not spend the probe's budget. The probe fails too if the engine's `/health` does.",
                f"{PROVEN_SECONDS:g} s beyond the work; {ABSENT_SECONDS:g} s of absence",
                ("tests/test_probes.py", "tests/real/test_vllm_stalls.py"),
            ),
            Promise(
                f"No client can have the pod restarted: `/-/healthy` fails only for a lost listener, or if no turn of the event loop has ended for {STUCK_SECONDS:g} s. A lack of files is neither.",
                "0 failed probes under attack",
                (
                    "tests/health/test_health.py",
                    "tests/test_probes.py::test_the_sidecars_probe_does_not_fail_before_its_loop_counts_as_stuck",
                    "tests/proxy/test_server.py::test_a_listening_socket_is_not_taken_for_lost_because_no_file_is_left",
                    "tests/real/test_budget_live.py",
                    "make soak",
                ),
            ),
        ),
    ),
    Chapter(
        "What is shown and written",
        (
            Promise(
                "No value that a client sends makes a series.",
                f"0 new series after {2 * INVENTIONS:,} inventions",
                ("tests/test_hostile_labels.py::test_twenty_thousand_inventions_leave_the_series_as_they_were",),
            ),
            Promise(
                "A secret that a client sends is in no metric, log line or page.",
                "0 finds",
                (
                    "tests/test_hostile_labels.py::test_a_secret_comes_out_nowhere",
                    "tests/logs/test_setup.py::test_no_secret_is_ever_written",
                ),
            ),
            Promise(
                "With a web config, pages need its password, probes do not, and a client that holds every connection of the admin port, or every TLS handshake, keeps no probe out.",
                "0 pages without it, 0 probes unanswered",
                ("tests/admin/test_access.py", "tests/admin/test_connections.py"),
            ),
        ),
    ),
)


def page(chapters: Iterable[Chapter] = CHAPTERS) -> str:
    """The whole page."""
    chapters = tuple(chapters)
    shown = chain.from_iterable(promise.shown_by for chapter in chapters for promise in chapter.promises)
    targets = sorted({each for each in shown if each.startswith("make ")})
    gate, thorough = gate_parts(), thorough_parts()
    return (
        _BEFORE.format(
            in_gate=_listed(each for each in targets if each in gate),
            in_thorough=_listed(each for each in targets if each in thorough and each not in gate),
            by_hand=_listed(each for each in targets if each not in gate and each not in thorough),
            soak_minutes=_SOAK_MINUTES,
            fuzz_inputs=_FUZZ_INPUTS,
        )
        + "".join(map(_section, chapters))
        + proofs()
    )


def _listed(targets: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in targets)


def proofs() -> str:
    """The chapter about builds: a row for each proof."""
    heads = ("proved", "on the compiled wheel", "on the sources")
    rows = (
        (
            proof.shows,
            f"`make prove ARGS=--only={proof.name}`",
            ", ".join(f"`{target}`" for target in proof.on_the_sources.split(", "))
            if proof.on_the_sources
            else "compares both",
        )
        for proof in PROOFS
    )
    return _BUILDS.format(python=image_python()) + table(heads, rows)


def _section(chapter: Chapter) -> str:
    rows = (
        (each.promise, each.figure, ", ".join(f"`{shown}`" for shown in each.shown_by)) for each in chapter.promises
    )
    return f"\n## {chapter.title}\n\n{table(('promise', 'figure', 'shown by'), rows)}"
