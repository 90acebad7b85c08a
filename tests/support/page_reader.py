"""One HTML page, read as a browser would: its words, tags, attributes, scripts and styles.

It asserts that every opened tag is closed in order. It knows no page of the product.
"""

from html.parser import HTMLParser


BLOCKS = frozenset(
    {"p", "li", "tr", "dt", "div", "table", "caption", "section", "summary", *(f"h{n}" for n in range(1, 5))}
)


class Reader(HTMLParser):
    """Reads a page as a browser would: its words, its tags, and the resources that it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.lines: list[str] = [""]
        """The words, by the rows, paragraphs and headings in which a reader sees them."""
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())
        self.lines = [" ".join(line.split()) for line in self.lines if line.split()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in BLOCKS:
            self.lines.append("")
        if tag not in {"meta", "link", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" in self.open:
            self.styles.append(data)
        else:
            self.words.append(data)
            self.lines[-1] += f" {data}"
