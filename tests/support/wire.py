"""Reads `tests/wire/*.wire`: requests as bytes, and their verdicts (its README describes the format)."""

import re
from dataclasses import dataclass, field
from pathlib import Path


FOLDER = Path(__file__).parent.parent / "wire"
LINE = re.compile(r"(?P<key>[a-z-]+)(?:\*(?P<times>\d+))?(?:: ?(?P<value>.*))?")


@dataclass(slots=True)
class Case:
    """One request, or several on one connection, and the verdict."""

    name: str
    sent: bytes = b""
    engine: list[bytes] = field(default_factory=list)
    """The requests that the engine must see, exactly."""
    refusal: tuple[int, bytes] | None = None
    """Status and reason of the sidecar's own answer, after those to `engine`."""
    in_body: bool = False
    """The refusal comes in mid-body: the engine may have seen the beginning, never the end."""
    continues: bool = False
    closes: bool = False

    def __str__(self) -> str:
        return self.name


def cases() -> list[Case]:
    """Every case of every file. Raises ValueError for a file that does not follow the format."""
    return [
        _case(f"{file.stem}: ", block)
        for file in sorted(FOLDER.glob("*.wire"))
        for block in file.read_text(encoding="ascii").split("\n\n")
        if block.strip()
    ]


def _case(prefix: str, block: str) -> Case:
    case = Case("")
    for line in block.strip("\n").split("\n"):
        match = LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{prefix}not a line of a case: {line!r}")
        _say(case, prefix, match["key"], match["value"] or "", int(match["times"] or 1))
    if not case.name or not case.sent or not (case.engine or case.refusal):
        raise ValueError(f"{prefix}a case needs a name, bytes and a verdict: {block!r}")
    return case


def _say(case: Case, prefix: str, key: str, value: str, times: int) -> None:
    match key:
        case "case":
            case.name = prefix + value
        case "send":
            case.sent += _bytes(value) * times
        case "engine":
            case.engine.append(_bytes(value))
        case "refuse" | "then-refuse" | "bad-body":
            status, reason = value.split()
            case.refusal = int(status), reason.encode()
            case.in_body = key == "bad-body"
        case "continue":
            case.continues = True
        case "closes":
            case.closes = True
        case "why":
            pass
        case _:
            raise ValueError(f"{prefix}unknown key {key!r}")


def _bytes(text: str) -> bytes:
    return text.encode("ascii").decode("unicode_escape").encode("latin-1")
