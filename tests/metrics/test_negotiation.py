"""A scraper gets the format that it prefers; no header raises an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.metrics.negotiation import Format, accepts_gzip, preferred


PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
DELIMITED = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
NATIVE_2 = f"{DELIMITED},application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
"""Accept of Prometheus 2.42 with --enable-feature=native-histograms."""
NATIVE_3 = f"{DELIMITED};q=0.6,{PROMETHEUS_3.replace('q=0.6', 'q=0.5')}"
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
    assert (Format.OPENMETRICS if openmetrics else Format.TEXT) == preferred(accept, protobuf=False)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (NATIVE_2, Format.PROTOBUF),
        (NATIVE_3, Format.PROTOBUF),
        (PROMETHEUS_2, Format.OPENMETRICS),
        (DELIMITED.replace("delimited", "text"), Format.TEXT),
        ("application/vnd.google.protobuf", Format.TEXT),
        (f"{DELIMITED};q=0", Format.TEXT),
        (f"{DELIMITED};q=0.3, text/plain;q=0.9", Format.TEXT),
        (f"{DELIMITED};q=0.9, application/openmetrics-text;q=0.9", Format.PROTOBUF),
    ],
)
def test_protobuf_only_where_it_is_asked_for_and_there_is_such_a_page(accept: str, form: Format) -> None:
    """Its name, message and encoding must be asked for; without native histograms no scraper gets it."""
    assert form == preferred(accept, protobuf=True)
    assert preferred(accept, protobuf=False) is not Format.PROTOBUF


@pytest.mark.parametrize(
    ("accept_encoding", "gzip"),
    [("gzip", True), ("gzip, deflate, br", True), ("identity", False), ("", False), ("gzip;q=0", False), ("*", False)],
)
def test_gzip_only_where_it_is_named(accept_encoding: str, gzip: bool) -> None:
    assert gzip == accepts_gzip(accept_encoding)


@given(st.text())
def test_no_header_raises(header: str) -> None:
    assert preferred(header, protobuf=True) in Format
    assert accepts_gzip(header) in (True, False)
