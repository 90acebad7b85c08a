"""An open-loop mixed load: interactive chat, batch summaries and long RAG prompts, each saying which lane it is in.

It knows when the next request is due and sends it then, whatever became of those before: a load that waits for answers would hide
every queue. It refuses to measure: what it counts is only whether answers came; times are the sidecar's business.
"""

import asyncio
from random import Random

import aiohttp

from sidecar.demo.dialect import BYTES_A_TOKEN
from sidecar.demo.workload import Arrival, Shape, Workload


LANE_HEADER = "X-Lane"
MIXED = Workload(
    (
        Shape(0.78, 900, 150, lane="interactive", spread=0.6),
        Shape(0.14, 2600, 350, lane="batch", spread=0.4),
        Shape(0.08, 6000, 200, lane="rag", spread=0.3),
    )
)
"""Three quarters of the requests are people; most of the prompt tokens are not theirs."""


class Load:
    """Requests to one OpenAI-style server at `url`, `rate` a second on average, the same ones for the same seed."""

    def __init__(self, url: str, model: str, rate: float, *, workload: Workload = MIXED, seed: int = 0) -> None:
        self.sent = 0
        self.answered = 0
        self.failed = 0
        """Answers other than 200, and those that broke off."""
        self._url = url
        self._model = model
        self._rng = Random(seed)
        self._arrivals = workload.arrivals(rate, Random(seed))

    async def run(self) -> None:
        """Send until cancelled; then every request in flight is abandoned, as a client that goes away does."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(self._url, connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as requests,
        ):
            for arrival in self._arrivals:
                await asyncio.sleep(start + arrival.at - loop.time())
                requests.create_task(self._ask(session, arrival))

    async def _ask(self, session: aiohttp.ClientSession, arrival: Arrival) -> None:
        self.sent += 1
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": self._prompt(arrival.prompt_tokens)}],
            "max_tokens": arrival.output_tokens,
            "stream": True,
        }
        try:
            async with session.post("/v1/chat/completions", json=body, headers={LANE_HEADER: arrival.lane}) as response:
                async for _ in response.content.iter_any():
                    pass
                whole = response.status == 200
        except (aiohttp.ClientError, OSError):
            whole = False
        self.answered += whole
        self.failed += not whole

    def _prompt(self, tokens: int) -> str:
        # A random beginning, so that no two prompts share a prefix: the load was calibrated without cache hits.
        head = f"{self._rng.getrandbits(64):016x} "
        return head + "lorem ipsum dolor sit amet " * (tokens * BYTES_A_TOKEN // 27)
