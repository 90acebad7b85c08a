"""Clients of many kinds at once, as a fleet sends them: every API, usage asked for or not, several choices, tools, structured output, whole answers,
and clients that leave in the queue, in the prefill or in the decode.

It knows requests and what their clients saw, by their own clock. It knows no sidecar, and no engine beyond the paths and fields that its
requests have: an engine's row of kinds stands in `test_mixed_clients.py`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import NamedTuple

from tests.support.client import Answer, Connection, event_json, events, post


WORDS = ("la", "to", "mi", "re", "nu", "ka", "so", "ti", "be", "da", "vo", "an")
MOST_WORDS, LEAST_WORDS = 900, 12
LONG_WORDS = 1_500
"""The prompt of a client that leaves while it is computed."""
TOKENS = (6, 32)
TOOL_TOKENS = 80
"""A call that its parser has not understood before the last token comes as a stream without output."""
LEAVES_AFTER_SECONDS = {"queue": 0.01, "prefill": 0.12}
"""By the stage in which a client leaves. One that leaves in the decode has had LEAVES_AFTER_EVENTS."""
LEAVES_AFTER_EVENTS = 3
SCHEMA = {"type": "object", "properties": {"word": {"enum": list(WORDS[:4])}}, "required": ["word"]}
TOOL = {"type": "function", "function": {"name": "say", "description": "Say a word.", "parameters": SCHEMA}}

Body = dict[str, object]


class Kind(NamedTuple):
    """One kind of client."""

    name: str
    path: str
    body: Callable[[str, int], Body]
    """Makes it of a prompt and a number of tokens, without `model`."""
    leaves: str = ""
    """The stage in which it leaves: `queue`, `prefill`, `decode`; "" for one that stays."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request, known by its name."""

    name: str
    kind: Kind
    body: Body

    @property
    def streamed(self) -> bool:
        return bool(self.body.get("stream", "/generate_stream" in self.kind.path))

    @property
    def trace(self) -> str:
        """A trace of its own, by which an engine's span is told."""
        return sha256(self.name.encode()).hexdigest()[:32]

    def bytes(self) -> bytes:
        parent = f"00-{self.trace}-00f067aa0ba902b7-01"
        return post(self.kind.path, self.body, [("X-Request-Id", self.name), ("traceparent", parent)])


@dataclass(frozen=True, slots=True)
class Seen:
    """One request and what its client saw of it."""

    question: Question
    answer: Answer

    @property
    def ttft_seconds(self) -> float | None:
        """By the client's clock; None without output."""
        first = self._first()
        return None if first is None else first[0] - self.answer.sent_at

    @property
    def first_text(self) -> str:
        """The first piece of Triton's own API; "" where there is none."""
        first = self._first()
        return "" if first is None else str(first[1].get("text_output", ""))

    def _first(self) -> tuple[float, dict[str, object]] | None:
        said = ((at, event_json(event)) for at, event in events(self.answer))
        return next(((at, event) for at, event in said if event is not None and has_output(event)), None)


def has_output(said: dict[str, object]) -> bool:
    """An event of any of the APIs carries output. A chat's empty content counts where no role stands beside it."""
    kind, choices = said.get("type"), said.get("choices")
    if isinstance(kind, str):
        return kind == "content_block_delta" or kind.endswith(".delta")
    if isinstance(choices, list):
        return any(_has_output(choice) for choice in choices)
    return "text_output" in said or ("content" in said and not said.get("stop"))


def _has_output(choice: dict[str, object]) -> bool:
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return "text" in choice
    content = delta.get("content")
    return bool(content or delta.get("tool_calls")) or (content is not None and "role" not in delta)


# --- kinds -----------------------------------------------------------------------------------------------------------------


def _chat(prompt: str, tokens: int) -> Body:
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 1, "stream": True}


def _completion(prompt: str, tokens: int) -> Body:
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 1, "stream": True, "ignore_eos": True}


def _response(prompt: str, tokens: int) -> Body:
    return {"input": prompt, "max_output_tokens": tokens, "stream": True}


def _whole(of: Callable[[str, int], Body]) -> Callable[[str, int], Body]:
    return lambda prompt, tokens: {name: value for name, value in of(prompt, tokens).items() if name != "stream"}


def _with(of: Callable[[str, int], Body], **more: object) -> Callable[[str, int], Body]:
    return lambda prompt, tokens: {**of(prompt, tokens), **more}


CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
USAGE = {"include_usage": True}
OPENAI = (
    Kind("chat", CHAT, _with(_chat, ignore_eos=True)),
    Kind("chat, usage", CHAT, _with(_chat, ignore_eos=True, stream_options=USAGE)),
    Kind("completions", COMPLETIONS, _completion),
    Kind("completions, usage", COMPLETIONS, _with(_completion, stream_options=USAGE)),
    Kind("structured", CHAT, _with(_chat, response_format={"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA}})),
    Kind("whole chat", CHAT, _whole(_with(_chat, ignore_eos=True))),
    Kind("whole completions", COMPLETIONS, _whole(_completion)),
)  # fmt: skip
TOOLS = Kind(
    "tools",
    CHAT,
    lambda prompt, tokens: {**_chat(prompt, tokens + TOOL_TOKENS), "tools": [TOOL], "tool_choice": "required"},
)
RESPONSE = Kind("responses", RESPONSES, _response)
MESSAGE = Kind("messages", MESSAGES, _chat)
TWO_CHOICES = Kind("n = 2", CHAT, _with(_chat, ignore_eos=True, n=2))
TWO_CHOICES_USAGE = Kind("n = 2, usage", CHAT, _with(_chat, ignore_eos=True, n=2, stream_options=USAGE))
TWO_PROMPTS = Kind(
    "two prompts", COMPLETIONS, lambda prompt, tokens: {**_completion(prompt, tokens), "prompt": [prompt, prompt[::-1]]}
)
LEAVING = tuple(Kind(f"leaves in {stage}", COMPLETIONS, _completion, stage) for stage in ("queue", "prefill", "decode"))


# --- a load ----------------------------------------------------------------------------------------------------------------


def questions(kinds: Sequence[Kind], count: int, model: str, prefix: str, seed: int) -> list[Question]:
    """So many, of each kind in turn, in an order that the seed draws. No two prompts begin alike. `model`: "" where the path names it."""
    rng = Random(seed)
    found = [_question(rng, kinds[number % len(kinds)], number, model, prefix) for number in range(count)]
    rng.shuffle(found)
    return found


def _question(rng: Random, kind: Kind, number: int, model: str, prefix: str) -> Question:
    words = (
        LONG_WORDS if kind.leaves == "prefill" else int(min(MOST_WORDS, max(LEAST_WORDS, rng.lognormvariate(4.6, 1.1))))
    )
    prompt = f"{prefix} {number} " + " ".join(rng.choices(WORDS, k=words))
    tokens = 400 if kind.leaves == "decode" else rng.randint(*TOKENS)
    named = {"model": model} if model else {}
    return Question(f"{prefix}-{number}", kind, {**named, **kind.body(prompt, tokens)})


async def play(
    port: int, asked: Iterable[Question], clients: int, pause: Callable[[], float] = lambda: 0.0
) -> dict[str, Seen]:
    """So many clients take the next question each, after a pause of so many seconds. Returns what they saw, by name."""
    left, found = iter(asked), dict[str, Seen]()

    async def client() -> None:
        connection: Connection | None = None
        for question in left:
            await asyncio.sleep(pause())
            if connection is None or connection.closed:
                connection = await Connection.open(port)
            found[question.name] = await _ask(connection, question)
            if question.kind.leaves or found[question.name].answer.closed:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return found


async def _ask(connection: Connection, question: Question) -> Seen:
    if not question.kind.leaves:
        return Seen(question, await connection.request(question.bytes()))
    sent_at = connection.write(question.bytes())
    if seconds := LEAVES_AFTER_SECONDS.get(question.kind.leaves):
        await asyncio.sleep(seconds)
    else:
        with suppress(TimeoutError):
            await asyncio.wait_for(_events(connection, LEAVES_AFTER_EVENTS), 60)
    connection.abort()
    return Seen(question, Answer(sent_at))


async def _events(connection: Connection, count: int) -> None:
    taken = b""
    while taken.count(b"data: ") < count:
        read = await connection.next_read()
        if read is None:
            return
        taken += read[1]
