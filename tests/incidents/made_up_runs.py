"""Small runs made by hand: each request takes the same way, so that a test can say what a sidecar must have counted."""

from collections.abc import Iterable

from bench.incidents.request import Request, Run, State


TTFT_SECONDS, GAP_SECONDS, EVENTS = 0.5, 0.03, 10


def answered(
    number: int, at: float, *, lane: str = "code", pod: int = 0, model: str = "llama", prompt_tokens: int = 1500
) -> Request:
    """A streamed request that is answered well within a second, with a report in its answer."""
    request = Request(number, lane, prompt_tokens, EVENTS, True, at, pod, model)
    request.cached_tokens = 1200
    request.reads = [at + TTFT_SECONDS + GAP_SECONDS * which for which in range(EVENTS)]
    request.events = [1] * EVENTS
    request.ended_at = request.reads[-1]
    request.flushed_at = request.ended_at + 0.0005
    request.report = (0.1, 0.35, request.reads[-1] - request.reads[0])
    return request


def run_of(requests: Iterable[Request], ends_at: float = 120.0, *, pods: int = 1) -> Run:
    """A run of these requests on engines that are up all the time. The fault lasts from a third to two thirds of it."""
    states = [
        State(at, True, 2, 3, 0.25, 0, int(at), 0, 0, pod) for at in range(0, int(ends_at), 5) for pod in range(pods)
    ]
    return Run(list(requests), states, ends_at / 3, 2 * ends_at / 3, ends_at, pods)
