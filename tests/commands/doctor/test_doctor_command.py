"""The command over real sockets: flags, text, JSON, exit codes, addresses with a password; and the servers are only asked."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from aiohttp import web

from sidecar.commands.asking import Reply, below
from sidecar.commands.doctor import doctor_command, gathering
from sidecar.commands.doctor.doctor_command import as_text, main
from sidecar.commands.doctor.examination import examine
from sidecar.commands.doctor.gathering import PAGES_OF_ALERTMANAGER, PAGES_OF_PROMETHEUS, QUERIES
from sidecar.commands.doctor.links import Finding, Link
from sidecar.metrics.vocabulary import DOCTOR_AGENT
from tests.commands.doctor.sound_evidence import api, groups, sound, vector, without_shipped_rules
from tests.commands.doctor.sound_evidence import told as sound_told
from tests.support.background import background


T = TypeVar("T")


class Double:
    """One server in place of all: it answers as those of a sound chain, and keeps what it was asked."""

    def __init__(self, password: bool = False) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.evidence, self.password = sound(), password

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path, request.headers.get("User-Agent", "")))
        if self.password and request.headers.get("Authorization") is None:
            return web.Response(status=401)
        reply = self.reply(request, str((await request.post()).get("query", "")))
        return web.Response(status=404) if reply is None else web.Response(body=reply.body, status=reply.status or 200)

    def reply(self, request: web.Request, query: str) -> Reply | None:
        told = self.evidence
        path = request.path_qs
        by_path = {"/-/healthy": told.healthy, "/-/ready": told.ready, "/diagnosis": told.diagnosis}
        by_path |= {path: told.prometheus.get(name) for name, path in PAGES_OF_PROMETHEUS.items() if path != "/metrics"}
        by_path |= {path: told.alertmanager[name] for name, path in PAGES_OF_ALERTMANAGER.items() if path != "/metrics"}
        by_query = {text: told.prometheus.get(name) for name, text in QUERIES.items()}
        if query:
            return by_query.get(query) or told.prometheus["kept" if "__name__" in query else "scraped"]
        # One page for all three: their names differ.
        pages = [told.page, told.prometheus["metrics"], told.alertmanager["metrics"]]
        body = b"".join(page.body for page in pages if page is not None)
        return Reply("", 200, body) if request.path == "/metrics" else by_path.get(path)


def play(double: Double, scenario: Callable[[str], T]) -> T:
    """Run the command in this thread, against a server in another."""

    async def start() -> tuple[web.AppRunner, int]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", double.handle)
        runner = web.AppRunner(app, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, runner.addresses[0][1]

    with background() as thread:
        runner, port = thread.run(start())
        try:
            return scenario(f"127.0.0.1:{port}")
        finally:
            thread.run(runner.cleanup())


def test_all_sources_are_asked_by_reading_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Only queries are posted. The sidecar's page is asked under the doctor's name, so that it counts as no scrape."""
    double = Double()
    flags = ("sidecar.url", "prometheus.url", "alertmanager.url", "proxy.url")
    code = play(double, lambda host: main([*(f"--{flag}=http://{host}" for flag in flags), "--output=json"]))
    links = {one["link"]: one["state"] for one in json.loads(capsys.readouterr().out)["links"]}

    assert {path for method, path, _ in double.asked if method != "GET"} == {"/api/v1/query"}
    assert {agent for *_, agent in double.asked} == {DOCTOR_AGENT}
    assert [links[name] for name in ("sidecar", "ready", "prometheus", "scrape", "rules", "routes")] == ["ok"] * 6
    assert code == 1  # this server is no sidecar's traffic port, and no runbook opens from here


class ScrapedAgain(Double):
    """A Prometheus whose last scrape is older than a series of the page; the next one comes while the doctor waits."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def reply(self, request: web.Request, query: str) -> Reply | None:
        if query.startswith("timestamp(process_start_time_seconds{"):
            self.looks += 1
            return vector(({}, 100.0 if self.looks < 3 else 115.0))
        return vector() if "__name__" in query and self.looks < 3 else super().reply(request, query)


def test_a_series_that_the_last_scrape_could_not_know_is_looked_for_in_the_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a real vLLM two series had come to the page since the last scrape: the doctor took them for dropped ones."""
    monkeypatch.setattr(gathering, "ASK_AGAIN_SECONDS", 0.01)
    double = ScrapedAgain()
    play(
        double,
        lambda host: main([*(f"--{one}.url=http://{host}" for one in ("sidecar", "prometheus")), "--output=json"]),
    )
    (found,) = [one for one in json.loads(capsys.readouterr().out)["links"] if one["link"] == "scrape"]

    assert (found["state"], double.looks) == ("ok", 3)


class Silent(Double):
    """A Prometheus that lacks a series, and tells of no further scrape: it answers something else, or does not end its answer."""

    def __init__(self, answer: Reply | None) -> None:
        super().__init__()
        self.answer = answer

    async def handle(self, request: web.Request) -> web.Response:
        if str((await request.post()).get("query", "")).startswith("timestamp(process_start_time_seconds{"):
            if self.answer is None:
                await asyncio.Event().wait()
            else:
                return web.Response(body=self.answer.body)
        return await super().handle(request)

    def reply(self, request: web.Request, query: str) -> Reply | None:
        return vector() if "__name__" in query else super().reply(request, query)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("answer", [None, Reply("", 200, b"<html>"), vector(({}, 100.0))])
def test_a_series_is_not_called_dropped_before_a_scrape_that_could_bring_it(
    answer: Reply | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wait ends by time: a slow Prometheus does not make it longer."""
    monkeypatch.setattr(gathering, "ASK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(gathering, "LONGEST_SCRAPE_INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr(gathering, "SCRAPE_SLACK_SECONDS", 0.0)
    play(
        Silent(answer),
        lambda host: main([*(f"--{one}.url=http://{host}" for one in ("sidecar", "prometheus")), "--output=json"]),
    )
    (found,) = [one for one in json.loads(capsys.readouterr().out)["links"] if one["link"] == "scrape"]

    assert (found["state"], "no scrape came" in found["said"]) == ("unknown", True)


@pytest.mark.parametrize(("user", "state"), [("", "broken"), ("me:secret@", "ok")])
def test_a_password_goes_into_the_address_and_into_no_answer(
    user: str, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    play(Double(password=True), lambda host: main([f"--sidecar.url=http://{user}{host}", "--output=json"]))
    said = capsys.readouterr().out
    (found,) = [one for one in json.loads(said)["links"] if one["link"] == "sidecar"]

    assert (found["state"], "secret" in said) == (state, False)


def test_an_address_with_a_password_is_shown_without_it_where_nothing_has_scraped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    double = Double(password=True)
    assert double.evidence.page is not None
    old = double.evidence.page.body.replace(b"last_scrape_age_seconds 12", b"last_scrape_age_seconds 75")
    double.evidence.page = replace(double.evidence.page, body=old)
    host = play(double, lambda host: (main([f"--sidecar.url=http://me:se@cret@{host}", "--output=json"]), host)[1])
    said = capsys.readouterr().out
    (found,) = [one for one in json.loads(said)["links"] if one["link"] == "scrape"]

    assert (found["said"], f"http://{host}/metrics" in found["do"], "cret" in said) == (
        "no scrape for 75 s",
        True,
        False,
    )


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ("--prometheus.url=ftp://me:secret@h", "--prometheus.url: 'ftp://h' is no http:// or https:// address"),
        ("--prometheus.url=me:se@://cret@h:9090", "--prometheus.url: 'h:9090' is no http:// or https:// address"),
        ("--engine.url=http://me:secret@h:8000", "--engine.url: 'http://h:8000' is no http:// or https:// address"),
        ("--proxy=http://me:secret@h", '--proxy: there is no such flag; did you mean "--proxy.url"?'),
    ],
)
def test_the_error_of_a_wrong_flag_repeats_no_password(
    flag: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([flag])
    told, *_ = capsys.readouterr().err.splitlines()

    assert (code, told) == (2, f"sidecar doctor: {error}")


def test_without_flags_a_host_without_a_sidecar_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--sidecar.url=http://127.0.0.1:1"])
    lines = capsys.readouterr().out.splitlines()

    assert code == 1
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "0 ok, 1 broken, 23 unknown."
    assert [line.split()[:2] for line in lines if line.startswith("broken")] == [["broken", "sidecar"]]


def test_before_attaching_nothing_is_broken_and_strict_says_that_much_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_command, "SIDECAR_URL", "http://127.0.0.1:1")
    double = Double()

    def codes(host: str) -> list[int]:
        return [main([f"--engine.url=http://{host}", *more]) for more in ([], ["--strict"])]

    assert play(double, codes) == [0, 1]


ODD_STATUS = {
    "html": "<html>",
    "empty": "{}",
    "yaml": json.dumps({"config": {"original": "{"}}),
    "matcher": json.dumps({"config": {"original": "route: {receiver: a, routes: [{matchers: [phase]}]}"}}),
    "expression": json.dumps({"config": {"original": r"route: {receiver: a, routes: [{match_re: {job: '\pL'}}]}"}}),
}


@pytest.mark.parametrize("name", ODD_STATUS)
def test_no_test_page_is_sent_by_routes_that_cannot_be_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    double = Double()
    double.evidence.alertmanager = {**double.evidence.alertmanager, "status": sound_told(ODD_STATUS[name])}
    play(double, lambda host: main([f"--alertmanager.url=http://{host}", "--send-test-page", "--output=json"]))
    document = json.loads(capsys.readouterr().out)

    assert [path for method, path, _ in double.asked if method == "POST"] == []
    assert {"routes", "delivery"} <= {*document["unknown"]}


def test_addresses_that_prometheus_states_may_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    """That of Alertmanager, and the runbook of a rule."""
    double, rules = Double(), groups()
    for rule in [rule for group in rules for rule in group["rules"] if "runbook_url" in rule["annotations"]]:
        rule["annotations"]["runbook_url"] = "http://h:port/runbook"
    known = {"activeAlertmanagers": [{"url": "http://h:99999/api/v2/alerts"}]}
    odd = {"alertmanagers": api(known), "rules": api({"groups": rules})}
    double.evidence.prometheus = {**double.evidence.prometheus, **odd}
    play(
        double,
        lambda host: main([*(f"--{one}.url=http://{host}" for one in ("sidecar", "prometheus")), "--output=json"]),
    )
    links = {one["link"]: (one["state"], one["said"]) for one in json.loads(capsys.readouterr().out)["links"]}

    assert links["alertmanager"][0] == "unknown"
    assert links["runbooks"] == (
        "broken",
        "1 of 1 links are dead from here: http://h:port/runbook is no address that can be asked",
    )


def test_a_package_without_rules_asks_nothing_in_vain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    double = Double()
    without_shipped_rules(monkeypatch)
    play(
        double,
        lambda host: main([*(f"--{one}.url=http://{host}" for one in ("sidecar", "prometheus")), "--output=json"]),
    )

    assert "rules" in json.loads(capsys.readouterr().out)["unknown"]


@pytest.mark.parametrize(
    "address",
    ["http://h:99999", "http://[oops", "http://h:port", "http:///x", "http://a b", "http://\u00fc..b", "h:80"],
)
def test_an_address_that_cannot_be_asked_is_a_wrong_flag(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code = main([f"--prometheus.url={address}"])

    assert (code, capsys.readouterr().err.splitlines()[0]) == (
        2,
        f"sidecar doctor: --prometheus.url: {address!r} is no http:// or https:// address",
    )


@pytest.mark.parametrize(
    ("admin", "port"),
    [("http://me:s@h:1/x", "http://h:8900"), ("http://[::1]:1", "http://[::1]:8900"), ("HTTP://h", "http://h:8900")],
)
def test_the_traffic_port_is_on_the_host_of_the_admin_side(
    admin: str, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[gathering.Sources] = []

    async def examined(sources: gathering.Sources, *_rest: object) -> list[Finding]:
        asked.append(sources)
        return examine(sound())

    monkeypatch.setattr(gathering, "examined", examined)
    main([f"--sidecar.url={admin}"])

    assert [one.proxy_url for one in asked] == [port]


def test_all_wrong_flags_are_told_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    flags = ["--prometheus.url=here", "--output=xml", "--send-test-page=lunch", "--engine.url=nowhere", "--colour"]
    code = main([*flags, f"--alertmanager.templates={tmp_path / 'none'}"])
    errors = capsys.readouterr().err.splitlines()

    assert (code, len(errors)) == (2, 7)
    assert [flag for flag in flags if not any(flag.partition("=")[0] in error for error in errors)] == []


def test_a_test_page_without_an_alertmanager_to_send_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--send-test-page"]) == 2
    assert "needs --alertmanager.url" in capsys.readouterr().err


def test_the_alertmanager_that_prometheus_names_is_asked_where_none_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    double = Double()

    def examined(host: str) -> int:
        known = {"activeAlertmanagers": [{"url": f"http://{host}/api/v2/alerts"}]}
        double.evidence.prometheus = {**double.evidence.prometheus, "alertmanagers": api(known)}
        return main([f"--sidecar.url=http://{host}", f"--prometheus.url=http://{host}", "--output=json"])

    play(double, examined)
    links = {one["link"]: one["state"] for one in json.loads(capsys.readouterr().out)["links"]}

    assert [links[name] for name in ("alertmanager", "alerts-sent", "routes")] == ["ok"] * 3


def test_the_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def test_a_config_is_read_as_serve_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sidecar.yml"
    file.write_text("engine: {uri: x}\n")
    main([f"--config.file={file}", "--sidecar.url=http://127.0.0.1:1", "--output=json"])
    document = json.loads(capsys.readouterr().out)

    assert document["broken"] == ["config", "sidecar"]
    assert f"{file}:1" in document["links"][0]["said"]


def test_each_link_of_a_sound_chain_is_a_paragraph_of_at_most_80_columns() -> None:
    lines = as_text(examine(sound()), 80).splitlines()

    assert [line for line in lines if len(line) > 80] == []
    assert sum(line.startswith("ok ") for line in lines) == len(Link)


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("http://h:9090", "/api/v1/rules", "http://h:9090/api/v1/rules"),
        ("http://h/prom/", "/api/v1/targets?state=active", "http://h/prom/api/v1/targets?state=active"),
    ],
)
def test_a_base_address_may_have_a_path(base: str, path: str, url: str) -> None:
    assert str(below(base, path)) == url
