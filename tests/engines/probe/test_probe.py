"""The sidecar's own questions to the engine, and its view of engines that hang, lie, are busy or are replaced."""

import asyncio
from collections import Counter

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from sidecar.engines.engine import MOST_LISTS, Engine
from sidecar.engines.probe.probe import MODELS_AGAIN_SECONDS, NO_MODELS_AGAIN_SECONDS
from sidecar.lifecycle import FAILED_CHECKS, SILENCE_SECONDS
from sidecar.timeline.belief import LEARNED_FROM
from tests.engines.probe.prober import VLLM_MODELS, ProberHarness, Replaced, answering, engine_answering
from tests.support.files import no_file_left


def test_a_vllm_says_that_it_is_one_which_models_it_serves_and_its_version() -> None:
    async def answer(request: web.Request) -> web.Response:
        return answering({"/health": b"", "/v1/models": VLLM_MODELS, "/version": b'{"version":"0.32.0"}'}, request)

    async def scenario() -> tuple[object, ...]:
        async with engine_answering(answer, "/{path:.*}") as url:
            harness = ProberHarness(url)
            await harness.ask()
            engine = harness.engine
            return engine.up, engine.kind, engine.models, engine.version, harness.readiness.ready(harness.now)[0]

    assert asyncio.run(scenario()) == (True, "vllm", ("tiny",), "0.32.0", True)


@pytest.mark.parametrize(
    "models",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"data":' * 50_000,
        b'{"data":[{"id":1}]}',
        b"\xff\xfe",
        b'{"data":[{"id":"\xff"}]}',
    ],
    ids=["empty", "null", "nested", "nested-objects", "wrong-type", "binary", "invalid-utf-8"],
)
def test_a_list_of_models_that_cannot_be_read_says_nothing(models: bytes) -> None:
    """The engine is up all the same, and of no known kind: usage is not asked of it."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=models if request.path == "/v1/models" else b"")

    async def scenario() -> tuple[object, ...]:
        async with engine_answering(answer, "/{path:.*}") as url:
            harness = ProberHarness(url)
            await harness.ask()
            return harness.engine.up, harness.engine.kind, harness.engine.models

    assert asyncio.run(scenario()) == (True, "auto", ())


@pytest.mark.parametrize(("status", "up"), [(200, True), (404, True), (500, False), (503, False)])
def test_an_engine_is_down_when_it_says_so_itself(status: int, up: bool) -> None:
    """A server without /health is up; one that answers 5xx cannot work."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status if request.path == "/health" else 404)

    async def scenario() -> bool | None:
        async with engine_answering(answer, "/{path:.*}") as url:
            harness = ProberHarness(url)
            await harness.ask()
            return harness.engine.up

    assert asyncio.run(scenario()) is up


def test_an_engine_that_hangs_is_a_missed_check_and_one_that_comes_back_is_asked_anew() -> None:
    """The engine that came back may be another version with other models."""
    healthy = [False, True]

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/health" and not healthy.pop(0):
            await asyncio.sleep(60)
        return web.Response(body=VLLM_MODELS if request.path == "/v1/models" else b"")

    async def scenario() -> list[tuple[bool | None, str]]:
        async with engine_answering(answer, "/{path:.*}") as url:
            harness = ProberHarness(url)
            seen = []
            for timeout_seconds in (0.3, 5.0):
                await harness.ask(timeout_seconds)
                seen.append((harness.engine.up, harness.engine.kind))
            return seen

    assert asyncio.run(scenario()) == [(False, "auto"), (True, "vllm")]


# --- a busy engine is not down, and one that was away may be another ---------------------------------------------------------


def test_an_engine_that_is_too_busy_for_its_health_check_is_up_as_long_as_it_sends_bytes() -> None:
    """Unanswered checks alone leave it up; with silence on every connection as well, it is down."""
    healthy = True

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/health" and not healthy:
            await asyncio.sleep(60)
        return answering({"/health": b"", "/v1/models": VLLM_MODELS}, request)

    async def scenario() -> list[bool | None]:
        nonlocal healthy
        async with engine_answering(answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            healthy = False
            seen = []
            for _ in range(FAILED_CHECKS + 1):
                harness.heard_at = harness.now
                await harness.ask(0.1)
                seen.append(harness.engine.up)
            harness.now += SILENCE_SECONDS + 1
            await harness.ask(0.1)
            return [*seen, harness.engine.up]

    assert asyncio.run(scenario()) == [True] * (FAILED_CHECKS + 1) + [False]


def test_an_engine_whose_port_is_closed_is_down_at_once() -> None:
    async def answer(request: web.Request) -> web.Response:
        return answering({"/health": b"", "/v1/models": VLLM_MODELS}, request)

    async def scenario() -> list[bool | None]:
        async with engine_answering(answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            before = harness.engine.up
        harness.heard_at = harness.now
        await harness.ask()
        return [before, harness.engine.up]

    assert asyncio.run(scenario()) == [True, False]


def test_a_check_that_could_not_be_made_says_nothing_about_the_engine() -> None:
    """It is logged once: the engine is not down, it did not come up anew when files are free again, and a pod stays ready."""

    async def answer(request: web.Request) -> web.Response:
        return answering({"/health": b"", "/v1/models": VLLM_MODELS}, request)

    async def scenario() -> tuple[object, ...]:
        async with engine_answering(answer) as url:
            harness = ProberHarness(url)
            with no_file_left():
                await harness.ask()
            unknown = harness.engine.up
            await harness.ask()
            told = harness.changes
            with no_file_left():
                for _ in range(FAILED_CHECKS + 1):
                    harness.now += SILENCE_SECONDS + 1
                    await harness.ask()
            up = harness.engine.up
            await harness.ask()
            return unknown, up, harness.changes - told, harness.readiness.ready(harness.now)[0]

    with capture_logs() as lines:
        assert asyncio.run(scenario()) == (None, True, 0, True)
    assert [line["event"] for line in lines] == ["probe_not_made"] * 2


def models(owner: str) -> bytes:
    return b'{"data":[{"id":"m","owned_by":"%s"}]}' % owner.encode()


def test_an_engine_that_comes_back_is_asked_again_for_everything() -> None:
    """First another version comes back, then another engine."""
    replaced = Replaced({"/v1/models": models("vllm"), "/version": b'{"version":"0.32.0"}'})

    async def scenario() -> list[tuple[str, str | None, str | None]]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url)
            seen = []
            for pages in (
                replaced.pages,
                {},
                {"/v1/models": models("vllm"), "/version": b'{"version":"0.33.0"}'},
                {},
                {"/v1/models": models("sglang"), "/server_info": b'{"version":"0.5.23","quantization":"fp8"}'},
            ):
                replaced.pages = pages
                await harness.ask()
                seen.append((harness.engine.kind, harness.engine.version, harness.engine.quantization))
            return seen

    first, second, third = ("vllm", "0.32.0", None), ("vllm", "0.33.0", None), ("sglang", "0.5.23", "fp8")
    assert asyncio.run(scenario()) == [first, first, second, second, third]


def test_a_restart_that_no_health_check_saw_has_everything_asked_again() -> None:
    """The engine's counters showed the restart."""
    replaced = Replaced({"/v1/models": models("vllm"), "/version": b'{"version":"0.32.0"}'})

    async def scenario() -> list[str | None]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            replaced.pages["/version"] = b'{"version":"0.33.0"}'
            await harness.ask()
            before = harness.engine.version
            harness.prober.ask_anew()
            await harness.ask()
            return [before, harness.engine.version]

    assert asyncio.run(scenario()) == ["0.32.0", "0.33.0"]


def test_a_known_engine_is_asked_for_its_models_once_a_minute_and_says_nothing_new() -> None:
    """Adapters come and go. A list that has not changed triggers no change."""
    replaced = Replaced({"/v1/models": models("vllm")})

    async def scenario() -> tuple[dict[str, int], int]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url)
            for _ in range(3):
                await harness.ask()
                harness.now += MODELS_AGAIN_SECONDS + 1
            del replaced.asked["/health"]
            return dict(replaced.asked), harness.changes

    asked, changes = asyncio.run(scenario())
    assert asked == {"/v1/models": 3, "/version": 1, "/server_info": 1}
    assert changes == 2  # it is up; it is a vLLM


@pytest.mark.parametrize("odd", [1, LEARNED_FROM - 1, LEARNED_FROM])
def test_a_list_that_names_another_kind_is_believed_after_several(odd: int) -> None:
    """One may come from another server behind the same name. Meanwhile the models and all that was learned stay, and it is asked at each check."""
    replaced = Replaced({"/v1/models": models("vllm")})

    async def scenario() -> tuple[list[str], bool, tuple[str, ...]]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            learned, kinds = harness.engine.asking.is_of_release, []
            learned(shows_at_once=True)
            harness.now += MODELS_AGAIN_SECONDS + 1
            replaced.pages["/v1/models"] = models("sglang").replace(b'"m"', b'"odd"')
            for _ in range(odd):
                await harness.ask()
                kinds.append(harness.engine.kind)
            stays = harness.engine.asking.otherwise is None
            named = harness.engine.models
            replaced.pages["/v1/models"] = models("vllm")
            await harness.ask()
            return kinds, stays, named

    assert asyncio.run(scenario()) == (
        ["vllm"] * min(odd, LEARNED_FROM - 1) + ["sglang"] * (odd == LEARNED_FROM),
        odd < LEARNED_FROM,
        ("odd",) if odd == LEARNED_FROM else ("m",),
    )


def test_of_an_engine_called_none_nothing_is_asked_but_its_health() -> None:
    replaced = Replaced({"/v1/models": models("vllm")})

    async def scenario() -> tuple[dict[str, int], str]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url, "none")
            await harness.ask()
            return dict(replaced.asked), harness.engine.kind

    assert asyncio.run(scenario()) == ({"/health": 1}, "none")


def test_a_kind_that_the_config_states_is_not_put_to_the_proof() -> None:
    """A gateway in front of a vLLM may give its models any owner."""
    replaced = Replaced({"/v1/models": models("gateway"), "/version": b'{"version":"0.33.0"}'})

    async def scenario() -> tuple[str, str | None, tuple[str, ...], set[str]]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url, "vllm")
            await harness.ask()
            return harness.engine.kind, harness.engine.version, harness.engine.models, set(replaced.asked)

    assert asyncio.run(scenario()) == (
        "vllm",
        "0.33.0",
        ("m",),
        {"/health", "/v1/models", "/version", "/server_info"},
    )


def test_a_llama_cpp_is_recognised_without_touching_its_metrics() -> None:
    """Even behind a proxy that renames its models: a scrape would reset gauges for everyone who reads them."""
    props = (
        b'{"default_generation_settings":{},"total_slots":4,"build_info":"b11434-abc","model_ftype":"Q4_K - Medium"}'
    )
    replaced = Replaced({"/v1/models": models("me"), "/props": props, "/metrics": b"llamacpp:requests_deferred 1\n"})

    async def scenario() -> tuple[str, str | None, str | None, bool]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            engine = harness.engine
            return engine.kind, engine.version, engine.quantization, "/metrics" in replaced.asked

    assert asyncio.run(scenario()) == ("llama_cpp", "b11434-abc", "Q4_K - Medium", False)


def test_an_unrecognised_engine_is_asked_seven_things_and_then_left_alone() -> None:
    replaced = Replaced({"/v1/models": models("me")})

    async def scenario() -> tuple[str, bool, int, int]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            asked = replaced.asked.total()
            for _ in range(5):
                harness.now += 2
                await harness.ask()
            return harness.engine.kind, harness.engine.asked_what, asked, replaced.asked.total() - asked

    assert asyncio.run(scenario()) == ("auto", True, 7, 5)  # one of the seven, and all five, are health checks


def test_a_page_that_hangs_makes_the_rounds_rarer_and_does_not_unmake_what_is_known() -> None:
    """The cause may be overload: the version is read when the engine has time for it."""
    patient = False

    async def answer(request: web.Request) -> web.Response:
        asked[request.path] += 1
        if request.path == "/version" and not patient:
            await asyncio.sleep(60)
        return answering({"/health": b"", "/v1/models": VLLM_MODELS, "/version": b'{"version":"0.33.0"}'}, request)

    asked: Counter[str] = Counter()

    async def scenario() -> tuple[str, int, str | None]:
        nonlocal patient
        async with engine_answering(answer) as url:
            harness = ProberHarness(url)
            for _ in range(10):
                await harness.ask(0.1)
                harness.now += 2
            kind, rounds = harness.engine.kind, asked["/version"]
            patient = True
            harness.now += MODELS_AGAIN_SECONDS
            await harness.ask()
            return kind, rounds, harness.engine.version

    kind, rounds, version = asyncio.run(scenario())
    assert (kind, version) == ("vllm", "0.33.0")
    assert 2 <= rounds <= 4


def test_an_engine_that_lists_its_models_elsewhere_is_asked_there() -> None:
    """KServe mounts all of the API below `/openai`. The next check asks, and not the next minute."""
    replaced = Replaced({"/openai/v1/models": models("me")})

    async def scenario() -> list[tuple[str, ...]]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            found = [harness.engine.models]
            harness.engine.may_list_at("/openai/v1/models")
            harness.now += 2
            await harness.ask()
            return [*found, harness.engine.models]

    assert asyncio.run(scenario()) == [(), ("m",)]


def test_an_engine_without_models_is_asked_again_within_seconds() -> None:
    """It may load them still: until then each request is one of an unknown model."""
    replaced = Replaced({"/v1/models": b'{"data":[]}'})

    async def scenario() -> list[tuple[str, ...]]:
        async with engine_answering(replaced.answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            found = [harness.engine.models]
            replaced.pages["/v1/models"] = models("me")
            harness.now += NO_MODELS_AGAIN_SECONDS + 1
            await harness.ask()
            return [*found, harness.engine.models]

    assert asyncio.run(scenario()) == [(), ("m",)]


def test_the_last_further_lists_are_remembered_and_none_once_the_models_are_known() -> None:
    engine = Engine("vllm")
    for number in range(9):
        engine.may_list_at(f"/{number}/models")
    known = Engine("vllm", ["m"])
    known.may_list_at("/openai/v1/models")

    assert (engine.lists, known.lists) == (tuple(f"/{number}/models" for number in range(9 - MOST_LISTS, 9)), ())
