"""The import rules of the package, checked on every module: which folder may import which (docs/architecture.md)."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.imports import (
    CHECKOUT,
    MODULES,
    PACKAGE,
    attributes_of,
    circle_of,
    dotted,
    importers,
    imports_of,
    in_reach,
    name_of,
    room_of,
)


HALLWAY = (
    *(
        "__init__.py",
        "__main__.py",
        "app.py",
        "beside_traffic.py",
        "cli.py",
        "lifecycle.py",
        "serving.py",
        "shutdown.py",
        "wiring.py",
    ),
)
"""The root of the package holds these files and no others."""
HEART = ("timeline", "classify", "ledger", "objectives", "pod", "pod/costs", "pod/usual", "pod/liveness")
LOOP_CLOCK_AND_SOCKETS = (
    *("asyncio", "time", "datetime", "socket", "selectors", "ssl", "threading", "subprocess", "os", "random"),
    *("aiohttp", "uvloop", "httptools", "grpc", "structlog", "logging", "prometheus_client"),
)
ASKS_OVER_HTTP = (
    *("engines/probe/probe.py", "engines/probe/unreached.py", "engines/probe/scrape.py"),
    *("engines/reports/sink.py", "engines/reports/fetcher.py"),
    *(
        "engines/probe/api_key.py",
        "engines/reports/export_files.py",
        "commands/asking.py",
        "commands/capacity/running.py",
    ),
    "commands/drain_command.py",
)
"""Files outside the folders with listeners that send requests to an engine, a sidecar or a Prometheus, or read what they are sent with or why they
failed. Other files read the answers."""
ONE_USER = {
    "admin": "a listener of its own, started by the hallway",
    "commands": "each starts from the command line; grafana/, bench/ and the tests use parts of them",
    "health": "of the process itself, with a thread of its own; started by the hallway",
    "otlp": "spans in and out, with listeners of their own; started beside the traffic",
}
"""Folders that only one other folder or the root imports, and that are no sub-package of it: each with its reason."""
TESTED = [path for path in MODULES if path.name != "__init__.py"]


def modules(*rooms: str) -> list[Path]:
    return [path for path in MODULES if room_of(path) in rooms]


def outside(*rooms: str) -> list[Path]:
    return [path for path in MODULES if room_of(path) not in rooms]


# --- the plan ----------------------------------------------------------------------------------------------------------


def test_the_scan_sees_imports_of_every_form(tmp_path: Path) -> None:
    """The scan finds every form of import; otherwise the tests below would prove nothing."""
    path = tmp_path / "module.py"
    path.write_text("import a.b\nfrom c import d\ndef f():\n    from e.f import g\n    import h as i\n")

    assert imports_of(path) == {"a.b", "c", "c.d", "e.f", "e.f.g", "h"}
    assert len(modules(*HEART)) > 15


def test_the_root_of_the_package_is_the_hallway() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} - set(HALLWAY) == set()


def test_imports_run_in_no_circle_of_rooms() -> None:
    """The folders have an order in which each comes after all folders that it imports."""
    rooms = {room_of(path) for path in MODULES}
    graph: dict[str, set[str]] = {room: set() for room in rooms}
    for path in MODULES:
        for name in imports_of(path):
            parts = name.split(".")
            if parts[0] == "sidecar" and len(parts) > 1:
                known = {name for of in (parts[1], "/".join(parts[1:3])) for name in (of, f"{of}.py")}
                graph[room_of(path)] |= known & rooms - {room_of(path)}

    assert circle_of(graph) == []


def test_imports_run_in_no_circle_of_modules() -> None:
    """The modules have such an order too. Imports for type checking are included."""
    names = {dotted(path): path for path in MODULES}
    graph = {name: imports_of(path) & names.keys() - {name} for name, path in names.items()}

    assert circle_of(graph) == []


def test_no_two_files_have_one_name() -> None:
    """File names are unique, so that a name in a traceback or in a question means one file."""
    names = Counter(path.name for path in MODULES if path.name != "__init__.py")

    assert {name: count for name, count in names.items() if count > 1} == {}


def test_a_room_that_one_other_uses_is_a_part_of_it() -> None:
    users: dict[str, set[str]] = {path.parent.name: set() for path in MODULES if path.parent.parent == PACKAGE}
    for path in MODULES:
        user = "hallway" if path.parent == PACKAGE else room_of(path).partition("/")[0]
        for name in imports_of(path):
            room = (*name.split("."), "")[1]
            if name.startswith("sidecar.") and room in users and room != user:
                users[room].add(user)

    assert {room for room, known_to in users.items() if len(known_to) < 2} == set(ONE_USER)


def test_tests_stand_where_their_modules_stand() -> None:
    """tests/timeline/test_sse.py tests sidecar/timeline/sse.py; test_sse_orders.py tests more of the same module.

    Tests across folders are at the top of tests/, in folders named after what they run on, or in ACROSS_MODULES.
    """
    stems = {path.parent.relative_to(PACKAGE) / path.stem for path in MODULES}
    own = {
        "answers",
        "clients",
        "real",
        "support",
        "bench",
        "builds",
        "fuzz",
        "garden",
        "goldens",
        "histories",
        "incidents",
        "alert_rules",
        "grafana",
        "browser",
        "drawn",
        "tools",
    }
    files = [path.relative_to(CHECKOUT / "tests") for path in (CHECKOUT / "tests").rglob("test_*.py")]
    astray = [
        str(path)
        for path in files
        if path.parent != Path() and path.parts[0] not in own and not _has_module(path, stems)
    ]

    assert [path for path in astray if path not in ACROSS_MODULES] == []
    assert sorted(set(ACROSS_MODULES) - set(astray)) == []


def test_every_module_has_a_test_file_of_its_name_or_one_that_is_named_here() -> None:
    """sidecar/timeline/sse.py is tested in tests/timeline/test_sse.py or test_sse_*.py, else in TESTED_THROUGH.

    In either case the test file imports the module, or a module of its folder that leads to it.
    """
    own = {path: own_tests(path) for path in TESTED}
    other = {path: TESTED_THROUGH.get(name_of(path), TESTED_THROUGH.get(f"{folder_of(path)}/")) for path in own}
    tests = {path: files or [CHECKOUT / "tests" / str(other[path])] for path, files in own.items()}

    assert sorted(name_of(path) for path, files in own.items() if not files and other[path] is None) == []
    assert [
        name_of(path) for path, files in tests.items() if not any(path in in_reach(one, path.parent) for one in files)
    ] == []


def test_no_entry_of_that_table_is_stale_or_superfluous() -> None:
    """Each names a module without a file of its own, or a folder with such a module, and a test file that exists."""
    lacking = {name_of(path): folder_of(path) for path in TESTED if not own_tests(path)}
    used = {*lacking, *(f"{folder}/" for name, folder in lacking.items() if name not in TESTED_THROUGH)}

    assert sorted({*TESTED_THROUGH} - used) == []
    assert sorted(file for file in TESTED_THROUGH.values() if not (CHECKOUT / "tests" / file).is_file()) == []


def folder_of(path: Path) -> str:
    """`timeline/dialects`; for a file in the root, `.`."""
    return str(path.parent.relative_to(PACKAGE))


def own_tests(path: Path) -> list[Path]:
    """The test files that bear this module's name."""
    folder = CHECKOUT / "tests" / folder_of(path)
    return [*folder.glob(f"test_{path.stem}.py"), *folder.glob(f"test_{path.stem}_*.py")]


def test_no_test_is_imported_from_a_test_file() -> None:
    """Code that two test files share is in a plain module: in tests/support, or beside them in their folder."""
    found = importers("tests", among=sorted((CHECKOUT / "tests").rglob("*.py")))

    assert len(found) > 100
    assert [name for name in found if re.search(r"\.(test_\w+|conftest)\b", name.partition(": ")[2])] == []


def _has_module(path: Path, stems: set[Path]) -> bool:
    words = path.stem.removeprefix("test_").split("_")
    return any(path.parent / "_".join(words[:count]) in stems for count in range(1, len(words) + 1))


ACROSS_MODULES = {
    "commands/capacity/test_agreement.py": "what `sidecar capacity` predicts against what the simulation lives through",
    "diagnosis/test_gold_cases.py": "cases with a staff engineer's answer, held against the printed steps",
    "diagnosis/test_worked_cases.py": "cases of the documentation, each number with its finding",
    "engines/test_every_engines_spans.py": "the spans of all engines, whole and damaged",
    "engines/test_in_band.py": "the answers of all engines through the whole sidecar, whole and damaged",
    "proxy/test_faults.py": "mixtures of faults of clients and engine on real sockets",
    "proxy/test_transparency.py": "bytes out equal bytes in, for generated requests and responses",
    "proxy/test_wire.py": "recorded wires of tests/wire: requests, headers and accept together",
    "proxy/test_wire_endings.py": "how a connection ends, on real sockets",
    "proxy/test_wire_pipelining.py": "several requests on one connection, on real sockets",
    "proxy/test_wire_shutdown.py": "what connections see of a shutdown",
    "proxy/test_wire_sockets.py": "slow clients, resets and half-closed connections on real sockets",
    "timeline/test_dialects.py": "all dialects on the recorded streams of tests/streams",
}
"""Tests of a whole folder: file to its subject."""


TESTED_THROUGH = {
    "__main__.py": "test_hostile_labels.py",
    "accounts/account_row.py": "accounts/test_account_ring.py",
    "admin/page/": "admin/page/test_page.py",
    "admin/page/error_budget.py": "admin/page/test_budget.py",
    "admin/page/failure_table.py": "admin/page/test_recent_failures.py",
    "commands/asking.py": "commands/doctor/test_doctor_command.py",
    "commands/inject/": "commands/inject/test_attaching_manifests.py",
    "commands/inject/inject_flags.py": "commands/inject/test_inject_command.py",
    "commands/capacity/answer.py": "commands/capacity/test_answers.py",
    "commands/capacity/gpus.py": "commands/capacity/test_bandwidth.py",
    "classify/decoders.py": "classify/test_body.py",
    "classify/found.py": "classify/test_body.py",
    "commands/compare/": "commands/compare/test_compare_command.py",
    "commands/verify/verify_output.py": "commands/verify/test_verify_command.py",
    "commands/demo/demo_flags.py": "commands/demo/test_demo.py",
    "commands/demo/load.py": "commands/demo/test_stage.py",
    "commands/demo/servers.py": "commands/demo/test_demo.py",
    "diagnosis/asked.py": "diagnosis/test_tree.py",
    "diagnosis/facts.py": "diagnosis/test_live.py",
    "diagnosis/measured.py": "diagnosis/test_tree.py",
    "diagnosis/slowest_text.py": "commands/diagnose/test_terminal.py",
    "diagnosis/why.py": "diagnosis/test_tree.py",
    "commands/doctor/": "commands/doctor/test_examination.py",
    "commands/doctor/gathering.py": "commands/doctor/test_doctor_command.py",
    "engines/kind.py": "engines/test_kinds.py",
    "engines/lmdeploy.py": "engines/reports/test_lone_requests.py",
    "engines/pool_behind.py": "test_pool_gone.py",
    "engines/probe/state_names.py": "engines/probe/test_state.py",
    "engines/reports/": "engines/test_tensorrt_llm_records.py",
    "engines/triton.py": "engines/test_in_band.py",
    "commands/export/rules/": "alert_rules/test_lint.py",
    "ledger/account.py": "ledger/test_ledger.py",
    "metrics/": "metrics/test_catalogue.py",
    "metrics/target_labels.py": "alert_rules/test_lint.py",
    "observe/instruments.py": "observe/test_request.py",
    "observe/request_record.py": "observe/test_evidence.py",
    "otlp/limits.py": "otlp/test_intake.py",
    "otlp/received.py": "otlp/test_protobuf.py",
    "proxy/answering.py": "proxy/test_relay.py",
    "proxy/client.py": "proxy/test_relay.py",
    "proxy/road.py": "proxy/test_relay.py",
    "proxy/sending.py": "proxy/test_idle_edge.py",
    "commands/simulator/operating_point.py": "commands/simulator/test_replica_presets.py",
    "commands/simulator/vllm_metrics.py": "commands/simulator/test_http_face.py",
    "proxy/observer.py": "proxy/test_guard.py",
    "proxy/unobserved.py": "proxy/test_guard.py",
    "pod/costs/cost_names.py": "observe/test_step_costs.py",
    "objectives/page_limits.py": "diagnosis/test_verdict.py",
    "pod/life.py": "pod/test_reasons.py",
    "pod/reading.py": "pod/test_pod.py",
    "pod/signs.py": "pod/test_pod.py",
    "timeline/dialects/": "timeline/test_dialects.py",
    "timeline/events.py": "timeline/test_timeline.py",
    "timeline/marks.py": "timeline/test_timeline.py",
}
"""Modules without a test file of their own name, to the file that tests them: tables and types, and parts of what that
file tests whole. A folder stands for those of its modules that have neither a file nor an entry of their own."""


# --- imports that are allowed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [*HEART, "accounts"])
def test_the_heart_is_pure(room: str) -> None:
    """No loop, no clock, no socket, no logger, no metric: bytes and instants in, marks and phases out."""
    rooms = ("sidecar.metrics", "sidecar.proxy", "sidecar.admin", "sidecar.engines", "sidecar.logs", "sidecar.observe")

    assert importers(*LOOP_CLOCK_AND_SOCKETS, *rooms, among=modules(room)) == []


def test_the_heart_follows_the_walk() -> None:
    """Timeline does not import ledger, ledger not objectives, these not the pod, and objectives come as numbers, not as a config."""
    walk = ("timeline", "ledger", "objectives", "pod")
    assert (
        importers("sidecar.config", "sidecar.classify", among=modules(*(room for room in HEART if room != "classify")))
        == []
    )
    for at, room in enumerate(walk):
        assert importers(*(f"sidecar.{later}" for later in walk[at + 1 :]), among=modules(room)) == []


def test_what_an_engine_says_is_read_without_io() -> None:
    """Only the files that send requests import a loop; the answers are parsed by pure files."""
    pure = [path for path in modules("engines") if name_of(path) not in ASKS_OVER_HTTP]

    assert importers(*LOOP_CLOCK_AND_SOCKETS, "sidecar.proxy", "sidecar.metrics", among=pure) == []


def test_a_diagnosis_is_made_without_io() -> None:
    """Numbers in, findings out. The commands that ask servers are elsewhere, and the demo's own numbers cannot get in."""
    io = ("asyncio", "time", "socket", "aiohttp", "structlog", "sidecar.admin")

    assert importers(*io, among=modules("diagnosis")) == []


def test_spans_are_decoded_without_io() -> None:
    """Bytes in, spans out. Only the intake and what sends spans import a loop, and only the listeners and the outbox import sockets."""
    hands_on = (
        "intake.py",
        "receiver.py",
        "grpc_listener.py",
        "forwarding.py",
        "outbox.py",
        "exporting.py",
        "spans.py",
    )
    pure = [path for path in modules("otlp") if path.name not in hands_on]

    assert importers(*LOOP_CLOCK_AND_SOCKETS, "sidecar.metrics", among=pure) == []
    assert importers("sidecar.otlp", among=outside("otlp", "beside_traffic.py")) == []


def test_the_package_needs_nothing_of_the_checkout_around_it() -> None:
    """The wheel holds `sidecar/` alone."""
    assert importers("bench", "grafana", "tests", "tools", among=MODULES) == []


def test_only_the_hallway_knows_the_admin_room() -> None:
    assert importers("sidecar.admin", among=outside("admin", "beside_traffic.py", "cli.py", "serving.py")) == []


def test_only_the_command_line_knows_the_commands() -> None:
    """They carry no traffic: a process that serves imports none of them, and the simulation cannot be reached in production."""
    others = [path for path in MODULES if not room_of(path).startswith("commands") and room_of(path) != "cli.py"]

    assert importers("sidecar.commands", among=others) == []


def test_the_rules_know_of_the_diagnosis_its_words_and_first_steps_alone() -> None:
    """A page tells them. The numbers that both share stand in `objectives/page_limits.py`."""
    rules = [path for path in modules("commands/export") if path.parent.name == "rules"]

    assert len(rules) > 5
    told = importers("sidecar.diagnosis.first_steps", "sidecar.diagnosis.cause_words", among=rules)
    assert importers("sidecar.diagnosis", among=rules) == told


def test_only_the_hallway_knows_the_app() -> None:
    assert importers("sidecar.app", "sidecar.wiring", among=outside(*HALLWAY)) == []


def test_sockets_are_opened_in_few_rooms() -> None:
    """The proxy uses sockets itself; the folders with listeners, and the files that send requests, use aiohttp or gRPC.

    `sidecar capacity` and `sidecar diagnose` send requests from processes of their own.
    """
    asks = [path for path in MODULES if name_of(path) in ASKS_OVER_HTTP]
    raw = ("socket", "socketserver", "http", "urllib.request", "httptools", "requests")
    listeners = [
        path for path in outside("proxy", "commands/demo", "commands/simulator", "admin", "otlp") if path not in asks
    ]

    assert len(asks) == len(ASKS_OVER_HTTP)
    assert (
        importers(
            *raw, among=[path for path in outside("proxy", "commands/demo", "commands/simulator") if path not in asks]
        )
        == []
    )
    assert importers("aiohttp", among=listeners) == []
    assert importers("grpc", among=outside("otlp")) == []


@pytest.mark.parametrize(
    "call", ["create_server", "create_connection", "open_connection", "start_server", "sock_connect"]
)
def test_only_the_road_and_the_demo_ask_the_loop_for_a_socket(call: str) -> None:
    callers = [
        name_of(path) for path in outside("proxy", "commands/demo", "commands/simulator") if call in attributes_of(path)
    ]

    assert callers == []


def test_the_road_does_not_know_what_is_measured() -> None:
    """The proxy reports instants and bytes to an observer. Only outcomes and budgets are shared by both sides."""
    known = importers("sidecar", among=modules("proxy"))
    shared = (": sidecar.proxy", ": sidecar.timeline.outcome", ": sidecar.budgets.budgets")
    others = [name for name in known if not any(part in name for part in shared)]

    assert others == []
    assert importers("structlog", "logging", "prometheus_client", "msgspec", among=modules("proxy")) == []


# --- the files -----------------------------------------------------------------------------------------------------------


def test_every_module_says_what_it_knows() -> None:
    """Every module has a paragraph at the top, except an empty __init__."""
    silent = [
        name_of(path)
        for path in MODULES
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]

    assert silent == []


def test_nothing_is_named_after_nothing() -> None:
    """A module called utils would attract all code that has no place yet."""
    words = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}

    assert [name_of(path) for path in MODULES if words & {*path.stem.split("_"), *path.parent.parts}] == []


def test_no_table_drops_its_oldest_entry_by_a_scan() -> None:
    """`del table[next(iter(table))]` skips all entries that were deleted before: thousands of steps in a large table.

    A bounded table is an OrderedDict and drops its oldest entry by `popitem(last=False)`.
    """
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Delete) and "next(iter(" in ast.unparse(node)
    ]

    assert found == []
