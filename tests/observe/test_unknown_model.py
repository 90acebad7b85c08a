"""The label `model` of requests whose name is in no list: what the answers to them prove holds for the requests that follow."""

import json
from collections.abc import Callable, Iterable

import pytest

from sidecar.engines.engine import Engine
from sidecar.observe.unknown_model import is_refusal
from tests.support.walk import Walk


CHAT = "/v1/chat/completions"
Answers = Callable[[dict[str, object]], bytes]


class Story:
    """A walk with an engine that lists no models."""

    def __init__(self, kind: str = "auto") -> None:
        self.engine = Engine(kind, on_models=self._admit)
        self.walk = Walk(engine=self.engine)

    def _admit(self, names: Iterable[str]) -> None:
        self.walk.instruments.recorder.admit_models(names)

    def asks(self, asked: str | None, answer: bytes, *, path: str = CHAT) -> str:
        """One request and its answer. Returns the model that it counts under."""
        named = {} if asked is None else {"model": asked}
        return self.sends(json.dumps({"messages": [], **named}).encode(), answer, path=path)

    def sends(self, body: bytes, answer: bytes, *, path: str = CHAT) -> str:
        """The same with a body of any kind."""
        client = self.walk.client()
        client.send(b"POST %b HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body))
        self.walk.engine.send(answer)
        client.end()
        return self.walk.accounts[-1].labels.model


def whole(body: dict[str, object], status: bytes = b"200 OK") -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (status, len(text), text)


def streamed(event: dict[str, object]) -> bytes:
    data = b"data: " + json.dumps(event).encode() + b"\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)


def chat(model: str, **more: object) -> dict[str, object]:
    return {"id": "chatcmpl-1", "model": model, "choices": [{"index": 0, "delta": {"content": "a"}}], **more}


def refusal(name: str) -> bytes:
    """As vLLM 0.32 refuses."""
    error = {"message": f"The model `{name}` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}
    return whole({"error": error}, b"404 Not Found")


@pytest.mark.parametrize("answer", [streamed, whole], ids=["streamed", "whole"])
def test_the_name_that_the_engine_answers_with_is_the_label_of_the_next(answer: Answers) -> None:
    """A gateway's clients ask for `gpt-4`; the server says what it is."""
    story = Story()

    found = [story.asks(name, answer(chat("llama-8b"))) for name in ("gpt-4", "gpt-4", "llama-8b", None, "gpt-3")]

    assert found == ["other", "llama-8b", "llama-8b", "other", "other"]


@pytest.mark.parametrize("answer", [streamed, whole], ids=["streamed", "whole"])
def test_a_thousand_names_that_are_repeated_leave_the_label_as_it_was(answer: Answers) -> None:
    """An engine that repeats each name proves none."""
    story = Story()

    found = {story.asks(f"model-{number}", answer(chat(f"model-{number}"))) for number in range(1000)}

    assert found == {"other"}
    assert story.engine.models == ()


def test_a_repeated_name_counts_once_the_engine_was_seen_to_refuse_another() -> None:
    """vLLM answers 404 to a name that it does not have, with the name in the text."""
    story = Story()

    found = [
        story.asks("llama", streamed(chat("llama"))),
        story.asks("mistral", refusal("mistral")),
        story.asks("llama", streamed(chat("llama"))),
        story.asks("llama", streamed(chat("llama"))),
    ]

    assert found == ["other", "other", "other", "llama"]


@pytest.mark.parametrize(
    "answer",
    [
        whole({"detail": "Not Found"}, b"404 Not Found"),
        whole({"error": "there is no path /v2/models/llama/generate"}, b"404 Not Found"),
        whole(
            {"error": {"message": "Response with id 'The model `llama` does not exist' not found."}}, b"404 Not Found"
        ),
        whole({"error": {"message": "The model `mistral` does not exist."}}, b"404 Not Found"),
        whole({"error": {"message": "The model `llama` does not exist." + "x" * 5000}}, b"404 Not Found"),
        whole({"error": {"message": "The model `llama` does not exist."}}, b"400 Bad Request"),
        whole({"error": {"message": ["model"], "param": {"model": 1}}}, b"404 Not Found"),
    ],
    ids=[
        "a path",
        "a path with its name",
        "the client's text",
        "another name",
        "too long",
        "another status",
        "no text",
    ],
)
def test_other_refusals_prove_nothing_about_names(answer: bytes) -> None:
    """The next repeated name is still none."""
    story = Story()
    story.asks("llama", answer)

    assert [story.asks("llama", streamed(chat("llama"))) for _ in range(2)] == ["other", "other"]


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "The model `llama` does not exist.", "param": "model", "code": 404}},
        {"object": "error", "message": "The model 'llama' does not exist.", "code": 404},
        {"error": "model 'llama' not found"},
        {"error": {"message": 'model "llama" not found, try pulling it first', "type": "api_error"}},
        {"error": {"message": "No such deployment.", "code": "model_not_found"}},
    ],
    ids=["vLLM", "LMDeploy", "Ollama", "Ollama's /v1", "OpenAI"],
)
def test_the_refusals_of_engines_are_known(body: dict[str, object]) -> None:
    """Cut anywhere, they are none."""
    told = json.dumps(body).encode()

    assert is_refusal(told, "llama")
    assert not any(is_refusal(told[:end], "llama") for end in range(len(told)))


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[]}',
        b'\xef\xbb\xbf{"model":"evil","messages":[]}',
        '{"model":"evil","messages":[]}'.encode("utf-16"),
        b'{"model":"\\ud800","messages":[]}',
        b'{"model":"' + b"x" * 5000 + b'","messages":[]}',
        b'{"model":"aaa",%b"messages":[],"t":NaN,"model":"evil"}'
        % b"".join(b'"%d":1,' % number for number in range(300)),
        b'{"model":"aaa","messages":[],"t":NaN,"n":"%b","model":"evil"}' % (b"x" * 5000),
    ],
    ids=["no name", "a byte order mark", "UTF-16", "a lone surrogate", "too long", "many members", "read in part"],
)
def test_a_name_that_was_not_read_proves_nothing(body: bytes) -> None:
    """The engine may read such a body where the sidecar does not: its answer would seem to state another name."""
    story = Story()
    story.sends(body, streamed(chat("evil")))

    assert story.engine.models == ()


@pytest.mark.parametrize(
    "events",
    [
        streamed(chat("llama")).replace(b"0\r\n\r\n", b""),
        streamed({**chat("llama"), "error": {"message": "out of memory"}}),
    ],
    ids=["cut", "an error"],
)
def test_an_answer_that_did_not_end_well_proves_nothing(events: bytes) -> None:
    story = Story()
    story.asks("gpt-4", events)

    assert story.engine.models == ()


def test_tritons_model_stands_in_its_path_and_its_events() -> None:
    """Its bodies name none. It is known to refuse a path of a model that it does not have."""
    story = Story("triton")
    event = streamed({"model_name": "my model", "model_version": "1", "text_output": "a"})

    path = "/v2/models/my%20model/generate_stream"
    found = [story.asks(None, event, path=path) for _ in range(2)]
    versioned = story.asks(None, event, path="/v2/models/my%20model/versions/1/generate_stream")
    another = story.asks(None, whole({"error": "unknown model"}, b"400 Bad Request"), path="/v2/models/x/generate")

    assert (found, versioned, another) == (["other", "my model"], "my model", "other")


def test_a_server_that_takes_any_path_for_a_model_proves_none() -> None:
    """It is not known to be Triton."""
    story = Story()

    for number in range(100):
        event = streamed({"model_name": f"m{number}", "text_output": "a"})
        assert story.asks(None, event, path=f"/v2/models/m{number}/generate_stream") == "other"
    assert story.engine.models == ()
