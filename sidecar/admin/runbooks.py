"""Serves the runbooks on the admin listener, so that links in alerts work in a cluster without internet access.

| path | answers |
|---|---|
| `/runbooks/` | the index |
| `/runbooks/NAME` | the runbook of the alert of this name, as a page |
| `/runbooks/NAME.md` | the same as text |

Knows the files of `sidecar/runbooks/`, all read when the process starts, and how to draw them. Refuses to know their
content. A requested name is looked up among the existing names and never becomes a path.
"""

import asyncio
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from aiohttp import web

from sidecar.admin.page.page import PAGE_HEADERS
from sidecar.admin.page.style import STYLE


if TYPE_CHECKING:
    from markdown_it.token import Token


INDEX = "README"
"""Name of the file that is the index and no runbook."""

_STYLE = """
pre{overflow-x:auto;padding:10px 14px;border:1px solid var(--line);background:var(--card);border-radius:8px}
code,pre{font:13px/1.45 ui-monospace,"DejaVu Sans Mono",monospace}li{margin:4px 0}
article th,article td{white-space:normal;text-align:left;vertical-align:top}
td code{white-space:nowrap}article td:first-child{min-width:13em}
""".strip()


@cache
def read() -> Mapping[str, str]:
    """Name to text, the index included. Raises OSError if the package lost its files."""
    texts = {file.name: file.read_text("utf-8") for file in files("sidecar").joinpath("runbooks").iterdir()}
    return {name.removesuffix(".md"): text for name, text in sorted(texts.items()) if name.endswith(".md")}


class Runbooks:
    def __init__(self) -> None:
        self._texts = read()
        # Drawn once, on the first request: 2 ms each, and few of them are ever requested.
        self._page = cache(self._drawn)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/runbooks", self._to_the_index), web.get("/runbooks/{name:.*}", self._answer)]

    async def _to_the_index(self, _request: web.Request) -> web.StreamResponse:
        raise web.HTTPPermanentRedirect("/runbooks/")

    async def _answer(self, request: web.Request) -> web.Response:
        asked = request.match_info["name"]
        name = asked.removesuffix(".md") or INDEX
        text = self._texts.get(name)
        if text is not None and asked.endswith(".md"):
            return web.Response(text=text, content_type="text/plain", charset="utf-8", headers=PAGE_HEADERS)
        # In a thread: drawing a runbook must not delay traffic.
        page = await asyncio.to_thread(self._page, name if text is not None else "")
        return web.Response(
            status=404 if text is None else 200,
            text=page,
            content_type="text/html",
            charset="utf-8",
            headers=PAGE_HEADERS,
        )

    def _drawn(self, name: str) -> str:
        if name:
            return _page(name if name != INDEX else "Runbooks", draw(self._texts[name]))
        names = "".join(f'<li><a href="/runbooks/{name}">{name}</a></li>' for name in self._texts if name != INDEX)
        return _page("No such runbook", f"<h1>No such runbook</h1><p>The runbooks are:</p><ul>{names}</ul>")


def draw(text: str) -> str:
    """A runbook's Markdown as HTML: tables scroll on a phone, and links between runbooks lead to pages."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  1 MB, and few processes are ever asked for a runbook

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for token in tokens:
        for child in token.children or ():
            _lead_to_a_page(child)
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    return html.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")


def _lead_to_a_page(token: "Token") -> None:
    href = token.attrs.get("href")
    if isinstance(href, str) and href.endswith(".md") and "/" not in href:
        name = href.removesuffix(".md")
        token.attrs["href"] = f"/runbooks/{name if name != INDEX else ''}"


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}{_STYLE}</style></head><body>'
        f'<nav><a href="/">llm-phase-sidecar</a><a href="/runbooks/">all runbooks</a></nav><article>{body}</article>'
        "</body></html>"
    )
