"""Clients that keep a real engine busy. They know the tiny model's words, and nothing of what is measured meanwhile."""

import asyncio

import aiohttp

from sidecar.commands.demo.load import LANE_HEADER


TWELVE_TOKENS = "la to mi re nu ka so ti be da vo an "


async def ask_again_and_again(url: str, model: str, clients: int, lane: str, *, repeats: int, max_tokens: int) -> None:
    """So many clients, each of which sends its next request after an answer. No two prompts begin alike."""
    numbers = iter(range(1_000_000))

    async def client(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            body = {
                "model": model,
                "prompt": f"{number} {TWELVE_TOKENS * repeats}",
                "max_tokens": max_tokens,
                "ignore_eos": True,
                "stream": True,
            }
            async with session.post("/v1/completions", json=body, headers={LANE_HEADER: lane}) as answer:
                await answer.read()

    async with aiohttp.ClientSession(url) as session:
        await asyncio.gather(*(client(session) for _ in range(clients)))
