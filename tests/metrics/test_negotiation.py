"""A scraper gets the format that it prefers; no header raises an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.metrics.negotiation import accepts_gzip, prefers_openmetrics


PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
        (FIREFOX, False),
        ("", False),
        ("*/*", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=0.3, text/plain;q=0.9", False),
        ("application/openmetrics-text;q=nan", False),
        ("application/openmetrics-text;q=1e999", False),
    ],
)
def test_openmetrics_only_where_it_is_preferred(accept: str, openmetrics: bool) -> None:
    assert openmetrics == prefers_openmetrics(accept)


@pytest.mark.parametrize(
    ("accept_encoding", "gzip"),
    [("gzip", True), ("gzip, deflate, br", True), ("identity", False), ("", False), ("gzip;q=0", False), ("*", False)],
)
def test_gzip_only_where_it_is_named(accept_encoding: str, gzip: bool) -> None:
    assert gzip == accepts_gzip(accept_encoding)


@given(st.text())
def test_no_header_raises(header: str) -> None:
    assert prefers_openmetrics(header) in (True, False)
    assert accepts_gzip(header) in (True, False)
