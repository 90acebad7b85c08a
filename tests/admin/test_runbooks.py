"""How the admin listener serves the runbooks."""

import asyncio
import re
import time
from html import unescape

import pytest
from yarl import URL

from sidecar.admin import runbooks
from sidecar.admin.runbook_drawing import Part, parts
from sidecar.diagnosis.confirming import Answer
from sidecar.history.rows import Moment
from sidecar.history.slices import Sliced
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.metrics.registry import Metrics
from tests.admin.broken_lane import broken
from tests.admin.runbook_parts import NAMES, TEXTS
from tests.support.admin import Visit, visit


def test_a_runbook_is_a_page_that_loads_nothing_and_a_text() -> None:
    async def scenario(visit: Visit) -> None:
        status, headers, body = await visit.ask("/runbooks/LLMQueueBurn")
        page = body.decode()
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "<h1>LLMQueueBurn</h1>" in page
        assert '<a href="/runbooks/LLMPrefillBurn">LLMPrefillBurn</a>' in page
        assert page.count("<table>") == 2
        assert re.findall(r"<script|src=|https?://", page) == []

        status, headers, text = await visit.ask("/runbooks/LLMQueueBurn.md")
        assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert text.decode() == TEXTS["LLMQueueBurn"]

    visit(scenario)


def test_the_index_leads_to_every_runbook_and_the_landing_page_to_the_index() -> None:
    async def scenario(visit: Visit) -> None:
        status, _, body = await visit.ask("/runbooks/")
        linked = re.findall(r'href="/runbooks/(\w+)"', body.decode())
        assert (status, sorted(linked)) == (200, NAMES)
        for name in linked:
            assert (await visit.ask(f"/runbooks/{name}"))[0] == 200

        status, headers, _ = await visit.ask("/runbooks")
        assert (status, headers["Location"]) == (308, "/runbooks/")
        assert b'<a href="/runbooks/">' in (await visit.ask("/"))[2]

    visit(scenario)


def test_head_says_what_get_would() -> None:
    async def scenario(visit: Visit) -> None:
        for path in ("/runbooks/", "/runbooks/Watchdog", "/runbooks/Watchdog.md", "/runbooks/nothing"):
            status, headers, body = await visit.ask(path, "HEAD")
            got = await visit.ask(path)
            assert (status, headers["Content-Type"], body) == (got[0], got[1]["Content-Type"], b"")
        assert (await visit.ask("/runbooks/Watchdog", "POST"))[0] == 405

    visit(scenario)


def test_an_unknown_name_is_answered_with_the_names_that_there_are() -> None:
    async def scenario(visit: Visit) -> None:
        for name in ("LLMNoSuch", "llmqueueburn", "LLMQueueBurn.html", "LLMQueueBurn/"):
            status, headers, body = await visit.ask(f"/runbooks/{name}")
            page = body.decode()
            assert (status, headers["Content-Type"]) == (404, "text/html; charset=utf-8")
            assert sorted(re.findall(r'href="/runbooks/(\w+)"', page)) == NAMES
            assert "NoSuch" not in page

    visit(scenario)


def test_runbooks_that_are_asked_for_at_once_are_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sidecar doctor` opens all links at once. Two threads in the Markdown parser at its first use made one of them answer 500."""
    inside, most = 0, 0

    def watched(text: str) -> tuple[Part, ...]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.01)  # long enough for another thread to come in
        inside -= 1
        return parts(text)

    monkeypatch.setattr(runbooks, "parts", watched)

    async def scenario(visit: Visit) -> None:
        answers = await asyncio.gather(*(visit.ask(f"/runbooks/{name}") for name in NAMES))
        assert {status for status, _, _ in answers} == {200}

    visit(scenario)
    assert most == 1


@pytest.mark.parametrize(
    "name",
    [
        "..%2f__init__.py",
        "%2e%2e/__init__.py",
        "..%2f..%2fpyproject.toml",
        "%2fetc%2fpasswd",
        "..%5c__init__.py",
        "LLMQueueBurn.md%00",
        "..%2frunbooks%2fLLMQueueBurn",
        "./LLMQueueBurn.md.md",
    ],
)
def test_a_name_never_becomes_a_path(name: str) -> None:
    """The name in the URL is looked up in a closed set; even a detour to an existing runbook is not found."""

    async def scenario(visit: Visit) -> None:
        # encoded=True: the client sends the path unchanged, without making it harmless.
        url = URL(f"http://127.0.0.1:{visit.port}/runbooks/{name}", encoded=True)
        async with visit.session.get(url, allow_redirects=False) as answer:
            assert (answer.status, b"The runbooks are" in await answer.read()) == (404, True)

    visit(scenario)


# --- filled in -----------------------------------------------------------------------------------------------------------


def two_lanes() -> Metrics:
    return Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512"], models=["org/llama:3", "llama"])


def seen(body: bytes) -> str:
    """The page's text, without tags and with single blanks."""
    return " ".join(unescape(re.sub(r"(?s)<style>.*?</style>|<[^>]+>", " ", body.decode())).split())


def test_the_link_in_a_page_leads_to_a_runbook_with_its_labels_filled_in() -> None:
    """No label is left to be typed, in any runbook; the text version stays as it is in the file."""

    async def scenario(visit: Visit) -> None:
        labels = "lane=chat&model=org%2Fllama%3A3&namespace=llm&job=monitoring%2Fvllm&pod=vllm-0"
        status, _, body = await visit.ask(f"/runbooks/LLMQueueBurn?{labels}")
        assert status == 200
        in_queries = '{namespace="llm", job="monitoring/vllm", model="org/llama:3"'
        assert in_queries in seen(body)
        of_cluster = (await visit.ask(f"/runbooks/LLMQueueBurn?{labels}&cluster=eu"))[2]
        assert in_queries.replace("{", '{cluster="eu", ') in seen(of_cluster)

        left = [name for name in NAMES if b"<mark>" in (await visit.ask(f"/runbooks/{name}?{labels}"))[2]]
        raw = (await visit.ask(f"/runbooks/LLMQueueBurn.md?{labels}"))[2].decode()
        assert (left, raw == TEXTS["LLMQueueBurn"]) == ([], True)

    visit(scenario, two_lanes())


def test_a_runbook_that_the_status_page_opens_is_filled_in_with_this_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the pod knows of its place stands in the queries of every runbook; the job is Prometheus' own word."""
    monkeypatch.setenv("POD_NAME", "vllm-0")
    monkeypatch.setenv("POD_NAMESPACE", "llm")

    async def scenario(visit: Visit) -> None:
        broken(visit.metrics)
        (link,) = set(re.findall(r'href="/runbooks/LLMQueueBurn(\?[^"]+)"', (await visit.ask("/"))[2].decode()))
        labels = unescape(link)
        shown = [seen((await visit.ask(f"/runbooks/{name}{labels}"))[2]) for name in NAMES]
        unknown = {found for text in shown for found in re.findall(r"Not known here: (.*?) \.", text)}
        left = {name for text in shown for name in re.findall(r'" (\$\w+) "', text)}

        assert (labels, unknown, left) == ("?lane=chat&model=llama", {"$job"}, {"$job"})

    visit(scenario, two_lanes())


def test_without_labels_the_places_are_marked_and_the_lane_can_be_chosen() -> None:
    async def scenario(visit: Visit) -> None:
        status, _, body = await visit.ask("/runbooks/LLMClientsGiveUp?namespace=llm")
        page = body.decode()

        assert (status, "<mark>$lane</mark>" in page, "<mark>$namespace</mark>" in page) == (200, True, False)
        assert '<a href="?namespace=llm&amp;lane=batch">batch</a>' in page
        assert "unknown: 0 s of history, needs 10 min" in page
        chosen = (await visit.ask("/runbooks/LLMClientsGiveUp?namespace=llm&lane=batch"))[2].decode()
        assert ("<mark>$lane</mark>" in chosen, "Choose the lane" in chosen) == (False, False)

    visit(scenario, two_lanes())


def test_a_refused_label_is_told_and_the_runbook_is_shown_all_the_same() -> None:
    """A person who was woken needs the text more than a perfect link. Nothing of the value comes back."""

    async def scenario(visit: Visit) -> None:
        url = "/runbooks/LLMQueueBurn?lane=%3Cscript%3Ealert(1)%3C/script%3E&pod=A_B&model=%22%7D%20or%20up"
        status, _, body = await visit.ask(url)
        text = seen(body)

        assert (status, "Fixes" in text, "alert(1)" in text, "or up" in text) == (400, True, False, False)
        assert re.findall(r"The parameter (\w+) was refused", text) == ["lane", "model", "pod"]
        assert "It is one of chat, batch, other." in text

    visit(scenario, two_lanes())


def test_the_present_cause_of_the_lane_is_on_top_with_the_flags_of_this_engine() -> None:
    """The numbers, the cause and the engine are those of this pod now."""

    async def scenario(visit: Visit) -> None:
        broken(visit.metrics)
        visit.metrics.info(c.ENGINE_INFO, "vllm", "0.25.0")

        text = seen((await visit.ask("/runbooks/LLMQueueBurn?lane=chat&model=llama"))[2])
        assert "Now lane chat: phase queue , cause slots , confidence 100 %." in text
        assert "fix targets cost works when vLLM For slots, as now: See whether a restart" in text
        assert "cause what it says go on with The present cause: slots" in text
        assert ("--num-queued-reqs" in text or "--max-num-seqs" in text, "--max-running-requests" in text) == (
            True,
            False,
        )
        assert "The flags of vLLM, this pod's engine; all engines ." in text

        every = seen((await visit.ask("/runbooks/LLMQueueBurn?lane=chat&model=llama&engine=all"))[2])
        assert "vLLM SGLang TensorRT-LLM TGI" in every
        other = seen((await visit.ask("/runbooks/LLMDecodeBurn?lane=chat&model=llama"))[2])
        assert "Read LLMQueueBurn too." in other

    visit(scenario, two_lanes())


def test_a_check_that_fails_takes_neither_the_runbook_nor_the_other_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str, _moment: Moment) -> Sliced[Answer]:
        yield
        if name == "roots-of-model":
            raise ZeroDivisionError
        return Answer(True, ("seven",))

    monkeypatch.setattr(runbooks, "answered", fails)

    async def scenario(visit: Visit) -> None:
        status, _, body = await visit.ask("/runbooks/LLMQueueBurn?lane=chat&model=llama")
        text = seen(body)
        assert (status, "unknown: the sidecar failed to answer" in text, "This pod now: seven" in text) == (
            200,
            True,
            True,
        )
        assert visit.metrics.counter(DROPPED_TOTAL).child("observer_error").value == 1

    visit(scenario, two_lanes())


def test_what_is_kept_does_not_grow_with_the_links() -> None:
    """One drawing for each file: no link, label or instant makes a further one."""
    made = []

    def counting(text: str) -> tuple[Part, ...]:
        made.append(text)
        return parts(text)

    async def scenario(visit: Visit) -> None:
        for number in range(20):
            await visit.ask(f"/runbooks/LLMQueueBurn?lane=chat&pod=vllm-{number}")
            await visit.ask(f"/runbooks/no-{number}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runbooks, "parts", counting)
        visit(scenario, two_lanes())

    assert made == [TEXTS["LLMQueueBurn"]]
