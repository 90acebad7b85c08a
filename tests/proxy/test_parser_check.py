"""An HTTP parser that lets requests be smuggled is found before traffic comes, and the message says what to install."""

import asyncio
import tomllib
from pathlib import Path

import httptools
import pytest
import structlog.testing

from sidecar.app import App
from sidecar.config.schema import Config
from sidecar.proxy import parser_check
from sidecar.proxy.parser_check import (
    READ_ANSWERS,
    READ_REQUESTS,
    REFUSED_ANSWERS,
    REFUSED_REQUESTS,
    Reading,
    advice,
    faults,
)
from tests.support.configs import section_of


PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_installed_parser_is_safe() -> None:
    assert faults() == []


def lenient(flag: str) -> type[httptools.HttpRequestParser]:
    class Lenient(httptools.HttpRequestParser):
        def __init__(self, reading: Reading) -> None:
            super().__init__(reading)
            self.set_dangerous_leniencies(**{flag: True})

    return Lenient


@pytest.mark.parametrize(
    ("flag", "fault"),
    [
        ("lenient_headers", "a request with a NUL in a value is accepted"),
        ("lenient_chunked_length", "a request with a length and chunks is accepted"),
        ("lenient_transfer_encoding", "a request with chunks that are not the last coding is accepted"),
        ("lenient_data_after_close", "a request with a request behind Connection: close is accepted"),
        ("lenient_optional_lf_after_cr", "a request with a chunk size that ends in a bare CR is accepted"),
        ("lenient_optional_cr_before_lf", "a request with a field that ends in a bare LF is accepted"),
        ("lenient_optional_crlf_after_chunk", "a request with a chunk that ends in nothing is accepted"),
        ("lenient_spaces_after_chunk_size", "a request with a space behind a chunk size is accepted"),
    ],
)
def test_each_lenient_mode_of_llhttp_is_found_and_named(flag: str, fault: str) -> None:
    """A parser of a distribution may be built in such a mode; the modes that are missing here change no message's end."""
    assert fault in faults(requests=lenient(flag))


class Accepting:
    """A parser that takes everything, and finds nothing in it."""

    def __init__(self, _reading: Reading) -> None: ...

    def feed_data(self, _data: bytes) -> None: ...


class Refusing(Accepting):
    """A parser that takes nothing."""

    def feed_data(self, _data: bytes) -> None:
        raise httptools.HttpParserError


def test_a_parser_that_accepts_everything_fails_every_probe() -> None:
    """So no probe passes by itself."""
    probes = len(REFUSED_REQUESTS) + len(REFUSED_ANSWERS) + len(READ_REQUESTS) + len(READ_ANSWERS)

    assert len(faults(Accepting, Accepting)) == len(set(faults(Accepting, Accepting))) == probes


def test_a_parser_that_refuses_everything_is_not_safe_either() -> None:
    assert faults(Refusing, Refusing) == [
        "a request with a length is misread",
        "a request with chunks is misread",
        "a request with an upgrade is misread",
        "an answer with a length is misread",
        "an answer with chunks is misread",
    ]


class Splitting:
    """A parser that is strict about whole reads only."""

    def __init__(self, reading: Reading) -> None:
        self._parser = httptools.HttpRequestParser(reading)

    def feed_data(self, data: bytes) -> None:
        if len(data) > 1:
            self._parser.feed_data(data)


def test_a_parser_that_is_strict_about_whole_reads_only_is_unsafe() -> None:
    """An attacker chooses the pieces."""
    assert "a request with two lengths is accepted" in faults(requests=Splitting)


def test_the_advice_names_the_version_that_this_package_needs() -> None:
    dependencies = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    (needed,) = [one for one in dependencies if one.startswith("httptools")]
    command, _, wanted = advice().rpartition(" ")

    assert command.endswith("pip install --force-reinstall --only-binary=httptools")
    assert sorted(wanted.strip("'").removeprefix("httptools").split(",")) == sorted(
        needed.removeprefix("httptools").split(",")
    )


def test_serve_does_not_start_on_an_unsafe_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """It logs what is wrong and what to install, binds no port, and exits with 1."""
    monkeypatch.setattr(parser_check, "faults", lambda: ["a request with two lengths is accepted"])
    config = section_of(Config, {"engine": {"url": "http://127.0.0.1:8000"}})

    async def scenario() -> tuple[int, list[str]]:
        app = App(config, lambda: config)
        with structlog.testing.capture_logs() as logs:
            code = await app.serve()
        return code, [line["event"] for line in logs if line["log_level"] == "error"]

    assert asyncio.run(scenario()) == (1, ["parser_unsafe"])
