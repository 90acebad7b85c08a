"""The import rules of the package, checked on every module: which folder may import which (docs/architecture.md)."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest


CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "sidecar"
MODULES = sorted(PACKAGE.rglob("*.py"))
HALLWAY = ("__init__.py", "__main__.py", "app.py", "cli.py", "lifecycle.py", "wiring.py")
"""The root of the package holds these files and no others."""
HEART = ("timeline", "classify", "ledger", "slo")
LOOP_CLOCK_AND_SOCKETS = (
    *("asyncio", "time", "datetime", "socket", "selectors", "ssl", "threading", "subprocess", "os", "random"),
    *("aiohttp", "uvloop", "httptools", "grpc", "structlog", "logging", "prometheus_client"),
)
ASKS_OVER_HTTP = (
    *("engines/probe/probe.py", "engines/probe/scrape.py", "engines/reports/sink.py", "engines/reports/fetcher.py"),
    *("engines/reports/export_files.py", "diagnosis/sources.py", "capacity/running.py"),
)
"""Files outside the folders with listeners that send requests to an engine, a sidecar or a Prometheus. Other files read
the answers."""
ONE_USER = {
    "admin": "a listener of its own, started by the hallway",
    "capacity": "a command of its own",
    "demo": "a command of its own",
    "otlp": "a listener of its own, started by the hallway",
    "simulator": "bench/ and the tests play it without the demo",
}
"""Folders that only one other folder or the root imports, and that are no sub-package of it: each with its reason."""
CEILING_LINES = 400


def name_of(path: Path) -> str:
    """`timeline/sse.py`; for a file outside the package, its whole path."""
    return str(path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path)


def dotted(path: Path) -> str:
    """`sidecar.timeline.sse`; for a package's `__init__`, the package."""
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


def room_of(path: Path) -> str:
    """`proxy`, `timeline`, ...; for a file in the root, its own name."""
    return path.relative_to(PACKAGE).parts[0]


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Full names of all imported modules, also of imports within functions and for type checking."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room is meant"
            module = node.module or ""
            names.update({module, *(f"{module}.{alias.name}" for alias in node.names)})
    return frozenset(names)


@cache
def attributes_of(path: Path) -> frozenset[str]:
    """Attribute names (behind a dot) in this module's code."""
    return frozenset(node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))


def importers(*forbidden: str, among: Iterable[Path]) -> list[str]:
    """`file: import` for each import of one of these modules or of anything inside them."""
    return [
        f"{name_of(path)}: {name}"
        for path in among
        for name in sorted(imports_of(path))
        if any(name == module or name.startswith(f"{module}.") for module in forbidden)
    ]


def modules(*rooms: str) -> list[Path]:
    return [path for path in MODULES if room_of(path) in rooms]


def outside(*rooms: str) -> list[Path]:
    return [path for path in MODULES if room_of(path) not in rooms]


def circle_of(graph: Mapping[str, AbstractSet[str]]) -> list[str]:
    """One cycle of the graph, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


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
                graph[room_of(path)] |= {parts[1], f"{parts[1]}.py"} & rooms - {room_of(path)}

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
        user = "hallway" if path.parent == PACKAGE else room_of(path)
        for name in imports_of(path):
            room = (*name.split("."), "")[1]
            if name.startswith("sidecar.") and room in users and room != user:
                users[room].add(user)

    assert {room for room, known_to in users.items() if len(known_to) < 2} == set(ONE_USER)


def test_tests_stand_where_their_modules_stand() -> None:
    """tests/timeline/test_sse.py tests sidecar/timeline/sse.py; test_sse_orders.py tests more of the same module.

    Tests across folders are at the top of tests/, in folders named after what they run on, or in STORIES.
    """
    stems = {path.parent.relative_to(PACKAGE) / path.stem for path in MODULES}
    own = {"real", "support", "bench", "incidents", "alert_rules", "grafana", "browser", "tools"}
    files = [path.relative_to(CHECKOUT / "tests") for path in (CHECKOUT / "tests").rglob("test_*.py")]
    astray = [
        str(path)
        for path in files
        if path.parent != Path() and path.parts[0] not in own and not _has_module(path, stems)
    ]

    assert [path for path in astray if path not in STORIES] == []
    assert sorted(set(STORIES) - set(astray)) == []


def test_no_test_is_imported_from_a_test_file() -> None:
    """Code that two test files share is in a plain module: in tests/support, or beside them in their folder."""
    found = importers("tests", among=sorted((CHECKOUT / "tests").rglob("*.py")))

    assert len(found) > 100
    assert [name for name in found if re.search(r"\.(test_\w+|conftest)\b", name.partition(": ")[2])] == []


def _has_module(path: Path, stems: set[Path]) -> bool:
    words = path.stem.removeprefix("test_").split("_")
    return any(path.parent / "_".join(words[:count]) in stems for count in range(1, len(words) + 1))


STORIES = {
    "capacity/test_agreement.py": "what `sidecar capacity` predicts against what the simulation lives through",
    "diagnosis/test_same_as_the_page.py": "the diagnosis and the alert rules come to the same verdict",
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


# --- imports that are allowed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", HEART)
def test_the_heart_is_pure(room: str) -> None:
    """No loop, no clock, no socket, no logger, no metric: bytes and instants in, marks and phases out."""
    rooms = ("sidecar.metrics", "sidecar.proxy", "sidecar.admin", "sidecar.engines", "sidecar.logs", "sidecar.observe")

    assert importers(*LOOP_CLOCK_AND_SOCKETS, *rooms, among=modules(room)) == []


def test_the_heart_follows_the_walk() -> None:
    """Timeline does not import ledger, ledger does not import slo, and objectives come as numbers, not as a config."""
    assert importers("sidecar.config", among=modules("timeline", "ledger", "slo")) == []
    assert importers("sidecar.ledger", "sidecar.slo", "sidecar.classify", among=modules("timeline")) == []
    assert importers("sidecar.slo", "sidecar.classify", among=modules("ledger")) == []
    assert importers("sidecar.classify", among=modules("slo")) == []


def test_what_an_engine_says_is_read_without_io() -> None:
    """Only the files that send requests import a loop; the answers are parsed by pure files."""
    pure = [path for path in modules("engines") if name_of(path) not in ASKS_OVER_HTTP]

    assert importers(*LOOP_CLOCK_AND_SOCKETS, "sidecar.proxy", "sidecar.metrics", among=pure) == []


def test_a_diagnosis_is_made_without_io() -> None:
    """Numbers in, findings out. The command starts a loop only to send requests, and the demo's own numbers cannot get
    in."""
    hands_on = (*ASKS_OVER_HTTP, "diagnosis/diagnose_command.py")
    pure = [path for path in modules("diagnosis") if name_of(path) not in hands_on]

    assert importers("asyncio", "time", "socket", "aiohttp", "structlog", "sidecar.admin", among=pure) == []


def test_spans_are_decoded_without_io() -> None:
    """Bytes in, spans out. Only the intake imports a loop, and only the listeners and the forwarding import sockets."""
    hands_on = ("intake.py", "receiver.py", "grpc_listener.py", "forwarding.py", "spans.py")
    pure = [path for path in modules("otlp") if path.name not in hands_on]

    assert importers(*LOOP_CLOCK_AND_SOCKETS, "sidecar.metrics", among=pure) == []
    assert importers("sidecar.otlp", among=outside("otlp", "app.py")) == []


def test_the_package_needs_nothing_of_the_checkout_around_it() -> None:
    """The wheel holds `sidecar/` alone. The one exception: the demo uses the shipped rules if it runs in a checkout."""
    installed = [path for path in MODULES if name_of(path) != "demo/shipped.py"]

    assert importers("alert_rules", "bench", "grafana", "tests", "tools", among=installed) == []


def test_only_the_hallway_knows_the_admin_room() -> None:
    assert importers("sidecar.admin", among=outside("admin", "app.py", "cli.py")) == []


def test_nothing_on_the_road_knows_the_simulation() -> None:
    """The simulation cannot be reached in production."""
    assert importers("sidecar.demo", "sidecar.simulator", among=outside("demo", "simulator", "cli.py")) == []


def test_only_the_hallway_knows_the_app() -> None:
    assert importers("sidecar.app", "sidecar.wiring", among=outside(*HALLWAY)) == []


def test_sockets_are_opened_in_few_rooms() -> None:
    """The proxy uses sockets itself; the folders with listeners, and the files that send requests, use aiohttp or gRPC.

    `sidecar capacity` and `sidecar diagnose` send requests from processes of their own.
    """
    asks = [path for path in MODULES if name_of(path) in ASKS_OVER_HTTP]
    raw = ("socket", "socketserver", "http", "urllib.request", "httptools", "requests")
    listeners = [path for path in outside("proxy", "demo", "simulator", "admin", "otlp") if path not in asks]

    assert len(asks) == len(ASKS_OVER_HTTP)
    assert importers(*raw, among=[path for path in outside("proxy", "demo", "simulator") if path not in asks]) == []
    assert importers("aiohttp", among=listeners) == []
    assert importers("grpc", among=outside("otlp")) == []


@pytest.mark.parametrize(
    "call", ["create_server", "create_connection", "open_connection", "start_server", "sock_connect"]
)
def test_only_the_road_and_the_demo_ask_the_loop_for_a_socket(call: str) -> None:
    callers = [name_of(path) for path in outside("proxy", "demo", "simulator") if call in attributes_of(path)]

    assert callers == []


def test_the_road_does_not_know_what_is_measured() -> None:
    """The proxy reports instants and bytes to an observer. Only the outcomes are shared by both sides."""
    known = importers("sidecar", among=modules("proxy"))
    others = [name for name in known if ": sidecar.proxy" not in name and ": sidecar.timeline.outcome" not in name]

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


def test_no_module_outgrows_its_room() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}

    assert {name: lines for name, lines in lengths.items() if lines > CEILING_LINES} == {}


def test_nothing_is_named_after_nothing() -> None:
    """A module called utils would attract all code that has no place yet."""
    words = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}

    assert [name_of(path) for path in MODULES if words & {*path.stem.split("_"), *path.parent.parts}] == []


def test_a_threshold_of_misses_or_votes_has_one_name_and_one_value() -> None:
    """FEWEST_MISSES was 10 in one module and 3 in two others: one name for two meanings, which misled readers."""
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                name = target.id if isinstance(target, ast.Name) else ""
                if name.isupper() and {"MISSES", "VOTES"} & {*name.split("_")}:
                    homes.setdefault(name, []).append(name_of(path))

    assert {"FEWEST_MISSES", "FEWEST_VOTES", "MISSES_BEYOND_CHANCE"} <= homes.keys()
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
