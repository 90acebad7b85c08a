"""The table of failures: each has a status, a reason and an outcome, and becomes one whole response of constant text."""

import errno
import json
import os
from collections import Counter

import pytest

from sidecar.proxy.errors import REASON_PHRASES, Failure, error_response, is_ours, of_connecting
from sidecar.timeline.outcome import Outcome
from tests.support.messages import read


@pytest.mark.parametrize("failure", Failure, ids=lambda failure: failure.name)
def test_a_failure_is_answered_in_the_shape_of_openais_errors(failure: Failure) -> None:
    """The body's code is the header's, and the length is right, or a connection that stays open would lose its place."""
    answer = failure.value

    start, fields, body, rest = read(error_response(failure, close=False))

    assert start == b"HTTP/1.1 %d %b" % (answer.status, REASON_PHRASES[answer.status])
    assert (b"x-sidecar-error", answer.reason.encode()) in fields
    assert rest == b""
    assert json.loads(body)["error"] == {
        "message": answer.message,
        "type": "invalid_request_error" if answer.outcome is Outcome.CLIENT_ERROR else "server_error",
        "param": None,
        "code": answer.reason,
    }


def test_reasons_are_given_once() -> None:
    """A reason in a log line or a counter means one row of docs/errors.md."""
    reasons = Counter(failure.reason for failure in Failure)

    assert [reason for reason, count in reasons.items() if count > 1] == []


def test_a_head_is_answered_with_the_length_and_without_the_body() -> None:
    """RFC 9110 9.3.2: the fields of a HEAD are those that a GET would get."""
    whole, head = (error_response(Failure.ENGINE_REFUSED, close=True, bodyless=bodyless) for bodyless in (False, True))

    assert whole.startswith(head)
    assert whole.removeprefix(head) == read(whole)[2]
    assert b"\r\nconnection: close\r\n" in head


def test_a_client_that_is_turned_away_is_told_when_to_come_again() -> None:
    """Retry-After stands on each answer for an engine that is not reached and on the 503 of what is full, and on no others."""
    asked = {failure for failure in Failure if b"\r\nretry-after: " in error_response(failure, close=False)}

    away = {failure for failure in Failure if failure.outcome is Outcome.ENGINE_UNREACHABLE}
    full = {failure for failure in Failure if failure.value.status == 503} - {Failure.TUNNEL_TOO_OLD}  # it was answered
    assert asked == away | full


@pytest.mark.parametrize(
    ("number", "failure"),
    [
        (errno.EMFILE, Failure.NO_FILES),
        (errno.ENFILE, Failure.NO_FILES),
        (errno.ENOBUFS, Failure.NO_NETWORK),
        (errno.ENOMEM, Failure.NO_NETWORK),
        (errno.EADDRNOTAVAIL, Failure.NO_NETWORK),
        (errno.ECONNREFUSED, Failure.ENGINE_REFUSED),
        (errno.ENOENT, Failure.ENGINE_REFUSED),
        (errno.ETIMEDOUT, Failure.ENGINE_CONNECT_TIMEOUT),
    ],
)
def test_what_the_sidecar_lacks_is_not_the_engines_failure(number: int, failure: Failure) -> None:
    """Without files, memory or ports no engine can be reached, and none is to blame."""
    error = OSError(number, os.strerror(number))

    assert of_connecting(error) is failure
    assert is_ours(error) == (failure in (Failure.NO_FILES, Failure.NO_NETWORK))


def test_no_lack_of_the_sidecars_own_is_an_outcome_of_the_engine() -> None:
    ours = {Failure.NO_FILES, Failure.NO_NETWORK, Failure.SHUTTING_DOWN, Failure.INTERNAL}

    assert {failure.outcome for failure in ours} == {Outcome.SIDECAR_ERROR}
