"""Links, headings, commands, flags and files that the pages name exist, and their examples can be pasted."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from sidecar.cli import main
from sidecar.config.file import load
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Histogram
from tests.support.tools import need_tool
from tools.docs import blocks, whole


CHECKOUT = Path(__file__).parents[1]
FRONT = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*FRONT, *sorted((CHECKOUT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
WHOLE, TABLES = set(whole()), set(blocks())
"""Pages that `make docs` writes from the first line to the last, and those in which it writes tables."""
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def prose_of(page: Path) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", page.read_text())


def code_of(page: Path, *languages: str) -> list[str]:
    return [body for _, language, body in _FENCE.findall(page.read_text()) if language in languages]


def anchors_of(page: Path) -> set[str]:
    """Anchors that GitHub makes from the page's headings."""
    headings = re.findall(r"^#+ +(.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands_of(page: Path, program: str) -> list[list[str]]:
    """Every invocation of `program` on this page, in code blocks and in backticks, as words."""
    lines = [line.strip() for block in code_of(page, "sh", "") for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", prose_of(page))
    found = [line.split(" #")[0].split("   ")[0] for line in lines if re.match(rf"{program}\s+[a-z-]", line)]
    return [shlex.split(line) for line in found]


def test_every_bucket_that_a_query_names_is_one_as_it_is_exposed() -> None:
    """`le="2"` finds nothing: the page says 2.0. A Prometheus 3 may say 2, so a query has to match one of both at least."""
    edges = {str(edge) for metric in CATALOGUE if isinstance(metric, Histogram) for edge in metric.buckets}
    folders = [CHECKOUT / "sidecar/runbooks", CHECKOUT / "alert_rules", CHECKOUT / "grafana"]
    pages = [*PAGES, *(page for folder in folders for page in sorted(folder.rglob("*.md")))]
    asked = [found for page in pages for found in re.findall(r'\ble=~?"([^"$]+)"', page.read_text())]

    assert len(asked) > 1
    assert [pattern for pattern in asked if not any(re.fullmatch(pattern, edge) for edge in edges)] == []


# --- links ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """Links lead to a file of this checkout and to a heading that is on it; links to other sites are not followed."""
    broken = []
    for link in _LINK.findall(prose_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)

    assert broken == []


def test_a_broken_link_would_be_seen(tmp_path: Path) -> None:
    """The patterns find headings and links, and skip code blocks; otherwise the test above would prove nothing."""
    page = tmp_path / "page.md"
    page.write_text("# One `two`, three\n```sh\n# no heading [x](y)\n```\n[a](other.md#b)\n")

    assert anchors_of(page) == {"one-two-three"}
    assert _LINK.findall(prose_of(page)) == ["other.md#b"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_file_that_is_named_exists(page: Path) -> None:
    """Paths in backticks are relative to the checkout or to `sidecar/`; bare file names are not checked."""
    rooms = "|".join(path.name for path in (CHECKOUT / "sidecar").iterdir() if path.is_dir())
    named = re.findall(rf"`((?:sidecar|tests|docs|deploy|bench|\.ci|{rooms})/[\w./]*)`", prose_of(page))

    assert [
        path for path in named if not any((root / path).exists() for root in (CHECKOUT, CHECKOUT / "sidecar"))
    ] == []


def test_every_folder_of_an_exported_kustomization_that_a_page_lists_exists() -> None:
    """`llm-phase-sidecar/` is what `sidecar export kubernetes` wrote: a component that has gone would stay on a page."""
    listed = [
        (page.name, found)
        for page in PAGES
        for code in code_of(page, "yaml", "sh")
        for found in re.findall(r"llm-phase-sidecar/(deploy/[\w/-]+)", code)
    ]

    assert {name for name, _ in listed} >= {"attach.md", "scaling.md"}
    assert [one for one in listed if not (CHECKOUT / one[1] / "kustomization.yaml").is_file()] == []


def test_the_walk_names_every_room_and_only_files_that_exist() -> None:
    """docs/architecture.md has each folder of `sidecar/`, and each file that it names is somewhere in the checkout."""
    page = (CHECKOUT / "docs" / "architecture.md").read_text()
    rooms = {path.name for path in (CHECKOUT / "sidecar").iterdir() if path.is_dir() and path.name != "__pycache__"}
    named = set(re.findall(r"\b([\w/]+\.py)\b", page))

    assert rooms - set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)) == set()
    tracked = [*CHECKOUT.glob("*/*.py"), *CHECKOUT.glob("sidecar/**/*.py"), *CHECKOUT.glob("tests/**/*.py")]
    assert {name for name in named if not any(str(path).endswith(f"/{name}") for path in tracked)} == set()


# --- commands ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    named = {words[1] for words in commands_of(page, "make")}

    assert named - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_sidecar_command_that_is_shown_is_understood(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Command and flags must be in the program's own help."""
    unknown = []
    for _, command, *flags in commands_of(page, "sidecar"):
        assert main([command, "--help"]) == 0, f"no such command: sidecar {command}"
        explained = capsys.readouterr().out
        unknown += [flag for flag in flags if flag.startswith("-") and flag.partition("=")[0] not in explained]

    assert unknown == []


def test_commands_are_found_on_the_pages() -> None:
    """Without any command on the pages, the two tests above would prove nothing."""
    assert ["sidecar", "serve", "--engine.url=http://127.0.0.1:8000"] in commands_of(CHECKOUT / "README.md", "sidecar")
    assert ["make", "demo"] in commands_of(CHECKOUT / "README.md", "make")


# --- code blocks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_config_that_is_shown_is_a_good_one(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yml"
    for block in code_of(page, "yaml"):
        if "engine:" in block:
            file.write_text(block)

            assert load(str(file), {}, {}).engine.url.startswith("http://")


def scrape_of(block: str) -> str:
    """A Prometheus' configuration, also where it is the one inside a Collector's, in which a `$` is written twice."""
    whole = yaml.safe_load(block)
    if "receivers" not in whole:
        return block
    return yaml.safe_dump(whole["receivers"]["prometheus"]["config"], sort_keys=False).replace("$$", "$")


def test_a_collector_scrapes_as_a_prometheus_does() -> None:
    """The recipe for places without Prometheus has the scrape configuration of the page for those with one, and every pipeline has its parts."""
    (collector,) = code_of(CHECKOUT / "docs/opentelemetry.md", "yaml")[1:]
    (prometheus,) = (one for one in code_of(CHECKOUT / "docs/attach.md", "yaml") if one.startswith("scrape_configs:"))
    parts = yaml.safe_load(collector)

    assert yaml.safe_load(scrape_of(collector)) == yaml.safe_load(prometheus)
    for pipeline in parts["service"]["pipelines"].values():
        assert all(set(names) <= set(parts[kind]) for kind, names in pipeline.items())


@pytest.mark.parametrize("page", ["docs/attach.md", "docs/opentelemetry.md", "alert_rules/README.md"])
def test_a_pod_that_has_ended_is_no_target(page: str) -> None:
    """Discovery lists it for hours, and no rule can tell it from a sidecar that is down where there is no kube-state-metrics."""
    (block,) = (block for block in code_of(CHECKOUT / page, "yaml") if "role: pod" in block)
    (job,) = yaml.safe_load(scrape_of(block))["scrape_configs"]
    ended = {"source_labels": ["__meta_kubernetes_pod_phase"], "regex": "Failed|Succeeded", "action": "drop"}

    assert ended in job["relabel_configs"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_prometheus_understands_what_it_is_given(page: Path, tmp_path: Path) -> None:
    """promtool checks the scrape configurations and queries."""
    scrapes = [scrape_of(block) for block in code_of(page, "yaml") if "scrape_configs:" in block]
    queries = code_of(page, "promql")
    if not scrapes and not queries:
        return
    promtool = need_tool("promtool")
    rules = [{"record": f"shown:{number}", "expr": query} for number, query in enumerate(queries)]
    # Debian's promtool is built without the service discovery of any cloud; the rest of the config is checked.
    discovery = re.compile(r"kubernetes_sd_configs:\n *- role: pod")
    files = [("config", discovery.sub("static_configs: [{targets: [localhost]}]", block)) for block in scrapes]
    files += [("rules", yaml.safe_dump({"groups": [{"name": "shown", "rules": rules}]}))] if queries else []
    for number, (kind, text) in enumerate(files):
        file = tmp_path / f"{number}.yml"
        file.write_text(text)
        answer = subprocess.run([promtool, "check", kind, file], capture_output=True, text=True, check=False)

        assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_container_of_a_pod_without_a_proxy_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    """Its arguments are a config that `check` takes, and each of its probes asks a port that it names."""
    page = (CHECKOUT / "docs" / "no_proxy.md").read_text()
    (text,) = (text for _, language, text in _FENCE.findall(page) if language == "yaml" and "initContainers" in text)
    (container,) = yaml.safe_load(text)["initContainers"]
    command, *flags = container["args"]

    assert (command, main(["check", *flags])) == ("serve", 0)
    assert "none (--no-proxy)" in capsys.readouterr().out
    asked = {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe")}
    assert asked == {port["name"] for port in container["ports"]}
