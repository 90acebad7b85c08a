"""The values of a form: found wherever they stand, and never a failure, whatever the bytes."""

import pytest

from sidecar.classify.form import MOST_PARTS, peek_form
from sidecar.classify.found import UNREAD_BODY
from tests.support.forms import FILE, form


def headers(stated: bytes = b"multipart/form-data; boundary=xYz") -> dict[bytes, list[bytes]]:
    return {b"content-type": [stated]}


MODEL, STREAM, AUDIO = ("model", b"whisper"), ("stream", b"true"), ("file", FILE)


@pytest.mark.parametrize("parts", [(MODEL, STREAM, AUDIO), (AUDIO, MODEL, STREAM), (MODEL, AUDIO, STREAM)])
def test_fields_are_found_before_and_behind_the_file(parts: tuple[tuple[str, bytes], ...]) -> None:
    seen = peek_form(form(*parts), headers())

    assert (seen.whole, seen.model, seen.stream) == (True, "whisper", True)


@pytest.mark.parametrize(
    ("stated", "boundary"),
    [
        (b'multipart/form-data; boundary="a b"', b"a b"),
        (b"Multipart/Form-Data; charset=utf-8; Boundary=----WebKit", b"----WebKit"),
    ],
)
def test_a_boundary_is_read_as_clients_state_it(stated: bytes, boundary: bytes) -> None:
    assert peek_form(form(MODEL, AUDIO, boundary=boundary), headers(stated)).model == "whisper"


def test_every_beginning_of_a_form_is_read_as_far_as_it_goes() -> None:
    """At every byte: a value counts once the next part begins, and nothing is raised."""
    body = form(MODEL, ("language", b"en"), STREAM, ("file", FILE[:600]))
    complete_at = {name: body.index(b"--xYz", body.index(value)) + 5 for name, value in (MODEL, STREAM)}

    for end in range(len(body) + 1):
        seen = peek_form(body[:end], headers())
        assert seen.model == ("whisper" if end >= complete_at["model"] else None)
        assert seen.stream == (True if end >= complete_at["stream"] else None)
        assert seen.whole == (end >= len(body) - 2)


@pytest.mark.parametrize(
    ("body", "stated"),
    [
        (form(MODEL), b"application/json"),
        (form(MODEL), b"multipart/form-data"),
        (form(MODEL), b"multipart/form-data; boundary="),
        (form(MODEL), b"multipart/form-data; boundary=" + b"x" * 71),
    ],
)
def test_what_is_no_form_is_not_read(body: bytes, stated: bytes) -> None:
    assert peek_form(body, headers(stated)) == UNREAD_BODY
    assert peek_form(body, {}) == UNREAD_BODY


def test_a_field_inside_the_file_and_odd_values_are_not_taken() -> None:
    """A file may hold anything but the boundary."""
    inside = b'\r\n--other\r\nContent-Disposition: form-data; name="model"\r\n\r\nevil\r\n--other--'

    assert peek_form(form(("file", inside)), headers()).model is None
    assert peek_form(form(("model", b"\xff\xfe")), headers()).model is None
    assert peek_form(form(("model", b"m" * 2000)), headers()).model is None
    assert peek_form(form(("stream", b"maybe")), headers()).stream is None
    assert peek_form(form(*[("x", b"1")] * MOST_PARTS, MODEL), headers()).model is None
