"""The protobuf wire format is read field by field."""

from sidecar.otlp.wire_format import Fields
from tests.support.otlp import field


def test_fields_are_told_with_their_places() -> None:
    body = b"\x08\x96\x01" + field(2, b"ab") + b"\x1d\x01\x02\x03\x04"

    assert list(Fields(body).between(0, len(body))) == [(8, 0, 150, 0), (18, 3, 5, 7), (29, 7, 8, 12)]
