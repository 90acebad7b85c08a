"""The client's trace context is read strictly and continued faithfully."""

import pytest

from sidecar.classify.trace import TraceContext, trace_context, traceparent


TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param(f"00-{TRACE}-{SPAN}-01", TraceContext(TRACE, SPAN, sampled=True), id="sampled"),
        pytest.param(f"00-{TRACE}-{SPAN}-03", TraceContext(TRACE, SPAN, sampled=True), id="sampled, random"),
        pytest.param(
            f"cc-{TRACE}-{SPAN}-01-what-comes-later", TraceContext(TRACE, SPAN, sampled=True), id="a later version"
        ),
        pytest.param(f"00-{TRACE}-{SPAN}-00", TraceContext(TRACE, SPAN, sampled=False), id="not sampled"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", None, id="the forbidden version"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", None, id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", None, id="no span"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", None, id="upper case"),
        pytest.param(f"00-{TRACE}-{SPAN}-01x", None, id="junk behind"),
        pytest.param('"} 1 # {evil="', None, id="an injection"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_context_is_taken_from_a_well_formed_header_alone(header: str, expected: TraceContext | None) -> None:
    """W3C Trace Context 3.2: any other header is no trace context."""
    assert expected == trace_context([(b"Host", b"pod"), (b"TraceParent", header.encode())])


def test_two_headers_are_no_header() -> None:
    """It is not known which of the two the engine would use."""
    header = (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())

    assert trace_context([header, header]) is None
    assert trace_context([]) is None


def test_what_goes_to_the_engine_names_our_span_as_the_parent_and_is_sampled() -> None:
    """The header that goes to the engine is read back as the same context."""
    assert trace_context([(b"traceparent", traceparent(TRACE, SPAN))]) == TraceContext(TRACE, SPAN, sampled=True)
