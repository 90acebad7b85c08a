"""Only a trace that its owner keeps is worth an exemplar."""

import pytest

from sidecar.classify.trace import sampled_trace_id


TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param(f"00-{TRACE}-{SPAN}-01", TRACE, id="sampled"),
        pytest.param(f"00-{TRACE}-{SPAN}-03", TRACE, id="sampled, random"),
        pytest.param(f"cc-{TRACE}-{SPAN}-01-what-comes-later", TRACE, id="a later version"),
        pytest.param(f"00-{TRACE}-{SPAN}-00", None, id="not sampled"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", None, id="the forbidden version"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", None, id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", None, id="no span"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", None, id="upper case"),
        pytest.param(f"00-{TRACE}-{SPAN}-01x", None, id="junk behind"),
        pytest.param('"} 1 # {evil="', None, id="an injection"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_trace_id_is_taken_from_a_well_formed_sampled_header_alone(header: str, expected: str | None) -> None:
    """W3C Trace Context 3.2: anything else is no trace."""
    assert expected == sampled_trace_id([(b"Host", b"pod"), (b"TraceParent", header.encode())])


def test_two_headers_are_no_header() -> None:
    """Which of them the engine would believe is not known here."""
    header = (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())

    assert sampled_trace_id([header, header]) is None
    assert sampled_trace_id([]) is None
