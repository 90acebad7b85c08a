"""Each start of a thread, a task, a process or a decompressor in the serving process stands on a line of docs/budgets.md."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.vocabulary import DROP_REASONS
from tests.support.imports import PACKAGE, importers
from tools.work_list import WORK


THREADS = ("Thread", "Timer", "ThreadPoolExecutor", "start_new_thread", "to_thread", "run_in_executor")
TASKS = (
    *(
        "create_task",
        "ensure_future",
        "TaskGroup",
        "run_coroutine_threadsafe",
        "gather",
        "as_completed",
        "shield",
        "Task",
    ),
    *("start_server", "start_unix_server", "AppRunner", "ServerRunner", "run_app"),
)
PROCESSES = (
    *("Popen", "Process", "ProcessPoolExecutor", "fork", "forkpty", "posix_spawn", "posix_spawnp", "popen"),
    *(
        "create_subprocess_exec",
        "create_subprocess_shell",
        "subprocess_exec",
        "subprocess_shell",
        "subprocess",
        "multiprocessing",
    ),
)
DECOMPRESSORS = (
    *("decompressobj", "Decompressor", "ZstdDecompressor", "BZ2Decompressor", "LZMADecompressor"),
    *("GzipFile", "BZ2File", "LZMAFile", "ZstdFile", "ZipFile", "TarFile"),
    "ClientSession",  # it decompresses what comes, unless it is told not to
)
STARTERS = frozenset({*THREADS, *TASKS, *PROCESSES, *DECOMPRESSORS})
OF_MODULES = frozenset(
    {
        *("asyncio.wait_for", "aio.server", "os.system", "os.startfile", "futures.Executor"),
        *(
            f"{module}.{name}"
            for module in ("zlib", "gzip", "bz2", "lzma", "brotli", "zstd")
            for name in ("decompress", "open")
        ),
    }
)
"""Names that mean something else elsewhere, with what stands before their dot."""


def started(tree: ast.Module) -> Iterator[str]:
    """`function: name` of each place that names a starter, whether it calls it or hands it on. Annotations name types alone."""
    renamed = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        for alias in node.names
        if alias.asname is not None
    }

    def within(node: ast.AST, where: tuple[str, ...]) -> Iterator[str]:
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or field in ("annotation", "returns"):
                    continue
                inside = where
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    inside = (*where, child.name)
                elif isinstance(child, ast.Name | ast.Attribute) and isinstance(child.ctx, ast.Load):
                    name = child.attr if isinstance(child, ast.Attribute) else renamed.get(child.id, child.id)
                    value_of = getattr(child, "value", None)
                    before = str(getattr(value_of, "id", getattr(value_of, "attr", "")))
                    dotted = f"{renamed.get(before, before)}.{name}"
                    if name in STARTERS:
                        yield f"{'.'.join(where)}: {name}"
                    elif dotted in OF_MODULES:
                        yield f"{'.'.join(where)}: {name if before == 'aio' else dotted}"
                yield from within(child, inside)

    return within(tree, ())


def in_the_process() -> Iterator[Path]:
    """Commands other than `serve` run in processes of their own."""
    return (path for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "commands" not in path.parents)


def test_the_serving_process_imports_no_other_command() -> None:
    """`cli.py` imports each command as it is called."""
    found = importers("sidecar.commands", among=in_the_process())

    assert {each.partition(":")[0] for each in found} == {"cli.py"}


def test_each_start_stands_on_a_line_of_the_list() -> None:
    found = Counter(
        f"{path.relative_to(PACKAGE).as_posix()} {each}"
        for path in in_the_process()
        for each in started(ast.parse(path.read_text()))
    )
    listed = Counter(start for work in WORK for start in work.starts)

    assert len(found) > 40
    assert found - listed == Counter(), "this work needs a limit, and a line in tools/work_list.py"
    assert listed - found == Counter(), "these lines name a start that is gone"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("threading.Thread(target=f).start()", "Thread"),
        ("Timer(1, f).start()", "Timer"),
        ("ThreadPoolExecutor()", "ThreadPoolExecutor"),
        ("asyncio.get_running_loop().run_in_executor(None, g)", "run_in_executor"),
        ("asyncio.create_task(g())", "create_task"),
        ("begin = loop.create_task", "create_task"),
        ("map(asyncio.ensure_future, x)", "ensure_future"),
        ("subprocess.run(['ls'])", "subprocess"),
        ("os.fork()", "fork"),
        ("zlib.decompressobj(31)", "decompressobj"),
        ("zlib.decompress(x)", "zlib.decompress"),
        ("gzip.open(x)", "gzip.open"),
        ("brotli.Decompressor()", "Decompressor"),
        ("await asyncio.wait_for(g(), 1)", "asyncio.wait_for"),
        ("grpc.aio.server()", "server"),
        ("aiohttp.ClientSession()", "ClientSession"),
    ],
)
def test_a_start_is_found_whatever_its_form(code: str, name: str) -> None:
    assert list(started(ast.parse(f"async def f():\n    {code}"))) == [f"f: {name}"]


def test_a_start_under_another_name_is_found_and_a_type_is_none() -> None:
    code = "from asyncio import create_task as begin\nimport zlib as z\nclass A(Thread):\n  def f(self, x: Thread) -> Thread:\n    self.y: Thread\n    begin(z.decompress(x))"

    assert list(started(ast.parse(code))) == ["A: Thread", "A.f: create_task", "A.f: zlib.decompress"]


def test_each_line_names_a_limit_and_counters_that_exist() -> None:
    metrics = {metric.name for metric in CATALOGUE}
    for work in WORK:
        assert all((work.cause, work.takes, work.limit, work.beyond, work.told)), work
        assert set(re.findall(r"\bllm_\w+", work.told)) <= metrics, work
        if "llm_sidecar_dropped_total" in work.told:
            reasons = re.findall(r"`(\w+)`", work.told.partition("llm_sidecar_dropped_total`:")[2].partition(";")[0])
            assert reasons
            assert set(reasons) <= set(DROP_REASONS), work
    causes = [work.cause for work in WORK]
    assert len(set(causes)) == len(causes)
