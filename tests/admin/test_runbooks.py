"""How the admin listener serves the runbooks."""

import re

import pytest
from yarl import URL

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
