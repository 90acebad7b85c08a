"""The walls of the house: which room may know what, read from the imports of every module (docs/architecture.md)."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest


CHECKOUT = Path(__file__).parents[1]
MODULES = sorted(path for path in (CHECKOUT / "sidecar").rglob("*.py"))
HEART = ("timeline", "classify", "ledger", "objectives", "evidence")
PURE_ENGINES = "sidecar.slo.prefill_cost"
ASKING = ("asking.py", "export_files.py", "hearing.py", "outside.py", "probe.py", "scrape.py")
"""The files that speak to the engine or to a fleet on the sidecar's own account; what they hear is judged elsewhere."""
CEILING_LINES = 400


def room_of(path: Path) -> str:
    """`proxy`, `timeline`, ...; for the hallway the file's own name."""
    return path.relative_to(CHECKOUT / "sidecar").parts[0]


def name_of(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Full names of all modules that are imported, also within functions and for type checking."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative imports hide which room is meant"
            module = node.module or ""
            names.update({module, *(f"{module}.{alias.name}" for alias in node.names)})
    return frozenset(names)


@cache
def attributes_of(path: Path) -> frozenset[str]:
    """The names behind every dot in this module's code."""
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


def test_the_scan_sees_imports_of_every_form(tmp_path: Path) -> None:
    """Or the walls below would stand on nothing."""
    path = tmp_path / "module.py"
    path.write_text("import a.b\nfrom c import d\ndef f():\n    from e.f import g\n    import h as i\n")

    assert imports_of(path) == {"a.b", "c", "c.d", "e.f", "e.f.g", "h"}
    assert len(modules(*HEART)) > 15


@pytest.mark.parametrize("room", HEART)
def test_the_heart_is_pure(room: str) -> None:
    """No loop, no clock, no socket, no logger, no metric: bytes and instants in, marks and phases out."""
    forbidden = ("asyncio", "time", "datetime", "socket", "selectors", "ssl", "threading", "subprocess", "os", "random")
    libraries = ("aiohttp", "uvloop", "httptools", "structlog", "logging", "prometheus_client")
    rooms = (
        "sidecar.metrics",
        "sidecar.proxy",
        "sidecar.admin",
        "sidecar.engines",
        "sidecar.logs.setup",
        "sidecar.app",
    )

    found = importers(*forbidden, *libraries, *rooms, among=modules(room))

    assert [name for name in found if PURE_ENGINES not in name or room != "evidence"] == []


def test_the_evidence_takes_one_thing_from_the_engines() -> None:
    """What a prompt costs: the estimator and the evidence learn it by the same function, which is as pure as they are."""
    known = importers("sidecar.engines", among=modules("evidence"))

    assert {name.split(": ")[1] for name in known if PURE_ENGINES not in name} == set()
    assert importers("sidecar", among=[CHECKOUT / "sidecar/slo/prefill_cost.py"]) == []


def test_promises_know_neither_the_config_nor_how_the_engine_is_seen() -> None:
    """What was promised comes as numbers; what was seen is told apart from what is blamed."""
    assert importers("sidecar.config.schema", "sidecar.classify", among=modules("objectives", "evidence")) == []
    assert importers("sidecar.evidence", among=modules("objectives")) == []
    assert importers("sidecar.slo", among=modules("evidence", "timeline", "classify", "ledger")) == []


def test_timeline_and_ledger_do_not_know_the_config_or_each_others_makers() -> None:
    """The ledger reads marks; the timeline does not know that there is a ledger."""
    assert importers("sidecar.config.schema", "sidecar.classify", among=modules("timeline", "ledger")) == []
    assert importers("sidecar.ledger", "sidecar.classify", among=modules("timeline")) == []


def test_what_an_engine_says_is_read_without_io() -> None:
    """Only the probe and the reader of its page ask."""
    pure = [path for path in modules("engines") if path.name not in ASKING]

    assert len(pure) == len(modules("engines")) - len(ASKING) + 1
    assert (
        importers("asyncio", "time", "socket", "aiohttp", "structlog", "sidecar.proxy", "sidecar.metrics", among=pure)
        == []
    )


def test_a_diagnosis_is_made_without_io() -> None:
    """Numbers in, findings out; the command starts a loop only to ask, and the demo's own numbers have no way in."""
    pure = [path for path in modules("diagnosis") if path.name not in ("asking.py", "command.py")]

    assert len(pure) >= 15
    assert importers("asyncio", "time", "socket", "aiohttp", "structlog", "sidecar.admin", among=pure) == []


def test_spans_are_decoded_without_io() -> None:
    """Bytes in, spans out; only the intake knows a loop, and only the listeners and the forwarding a socket."""
    hands_on = ("intake.py", "receiver.py", "grpc_listener.py", "forward.py", "spans.py")
    pure = [path for path in modules("otlp") if path.name not in hands_on and path.name != "__init__.py"]

    assert len(pure) >= 8
    assert importers("asyncio", "time", "socket", "aiohttp", "grpc", "structlog", "sidecar.metrics", among=pure) == []
    assert importers("sidecar.otlp", among=outside("otlp", "app.py")) == []


def test_only_the_hallway_knows_the_admin_room() -> None:
    assert importers("sidecar.admin", among=outside("admin", "app.py", "cli.py")) == []


def test_nothing_on_the_road_knows_the_demo() -> None:
    """A simulation must not be able to reach production."""
    assert importers("sidecar.demo", among=outside("demo", "cli.py")) == []


def test_the_package_needs_nothing_of_the_checkout_around_it() -> None:
    """The wheel holds `sidecar/` alone. The one exception: the demo plays the shipped rules where it runs in a checkout."""
    installed = [path for path in MODULES if path != CHECKOUT / "sidecar/demo/shipped.py"]

    assert importers("alert_rules", "bench", "grafana", "tests", "tools", among=installed) == []


def test_only_the_hallway_knows_the_app() -> None:
    assert importers("sidecar.app", among=outside("app.py", "cli.py", "__main__.py", "demo")) == []


def test_sockets_are_opened_in_few_rooms() -> None:
    """The road by itself; the admin room, the span room, the probe and the demo through aiohttp or gRPC.

    `sidecar capacity` and `sidecar diagnose` ask from processes of their own.
    """
    asking = [path for path in modules("engines", "diagnosis") if path.name in ASKING]
    off_the_road = [
        path for path in outside("proxy", "demo") if path != CHECKOUT / "sidecar" / "capacity" / "asking.py"
    ]
    raw = importers("socket", "socketserver", "http", "urllib.request", "httptools", "requests", among=off_the_road)
    through_aiohttp = importers(
        "aiohttp", among=[path for path in outside("admin", "demo", "otlp") if path not in asking]
    )
    through_grpc = importers("grpc", among=outside("otlp"))

    assert raw + through_aiohttp + through_grpc == []


@pytest.mark.parametrize(
    "call", ["create_server", "create_connection", "open_connection", "start_server", "sock_connect"]
)
def test_only_the_road_and_the_demo_ask_the_loop_for_a_socket(call: str) -> None:
    callers = [name_of(path) for path in outside("proxy", "demo") if call in attributes_of(path)]

    assert callers == []


def test_the_road_does_not_know_what_is_measured() -> None:
    """It tells instants and bytes to a watch. Outcomes are the one word that both sides share."""
    known = importers("sidecar", among=modules("proxy"))
    others = [name for name in known if ": sidecar.proxy" not in name and ": sidecar.timeline.outcome" not in name]

    assert others == []
    assert importers("structlog", "logging", "prometheus_client", "msgspec", among=modules("proxy")) == []


def test_every_module_says_what_it_knows() -> None:
    """A paragraph at the top; an empty __init__ says nothing because it does nothing."""
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
    """A module called utils is where the next thing goes that nobody has thought about."""
    words = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}

    assert [name_of(path) for path in MODULES if words & {*path.stem.split("_"), *path.parent.parts}] == []


def test_a_threshold_of_misses_or_votes_has_one_name_and_one_value() -> None:
    """FEWEST_MISSES was 10 in one module and 3 in two others: two meanings, of which a reader knew one."""
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                name = target.id if isinstance(target, ast.Name) else ""
                if name.isupper() and {"MISSES", "VOTES"} & {*name.split("_")}:
                    homes.setdefault(name, []).append(name_of(path))

    assert {"FEWEST_MISSES", "FEWEST_VOTES", "MISSES_BEYOND_CHANCE"} <= homes.keys()
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_every_test_file_stands_where_its_module_stands() -> None:
    """tests/timeline/test_sse.py is about sidecar/timeline/sse.py, or tells a story of that room."""
    rooms = {path.parent.relative_to(CHECKOUT / "sidecar") for path in MODULES}
    tools = ("real", "support", "bench", "incidents", "alert_rules", "grafana", "browser", "tools")
    own = {Path(name) for name in tools}
    folders = {path.parent.relative_to(CHECKOUT / "tests") for path in (CHECKOUT / "tests").rglob("test_*.py")}

    assert folders - rooms - own == set()


def test_no_test_is_imported_from_a_test_file() -> None:
    """What two test files share is a plain module: in tests/support, or beside them in their room."""
    found = importers("tests", among=sorted((CHECKOUT / "tests").rglob("*.py")))

    assert len(found) > 100
    assert [name for name in found if re.search(r"\.(test_\w+|conftest)\b", name)] == []
