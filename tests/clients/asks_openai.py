"""The OpenAI SDK asks one server: `python asks_openai.py BASE_URL` prints what it was told, as JSON. Run as a program of its own."""

import json
import sys
from typing import Any

from openai import OpenAI


def main() -> None:
    client: Any = OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="sk-test", max_retries=0, timeout=60)
    told: dict[str, object] = {}
    ask = [{"role": "user", "content": "hi"}]
    for name, more in (
        ("plain", {}),
        ("usage", {"stream_options": {"include_usage": True}}),
        ("reasoning", {"reasoning_effort": "low"}),
        ("tools", {"tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]}),
    ):
        chunks = [
            one.model_dump() for one in client.chat.completions.create(model="m", messages=ask, stream=True, **more)
        ]
        told[name] = chunks
    stream = client.chat.completions.create(model="m", messages=ask, stream=True, user="slow")
    told["cancelled"] = next(iter(stream)).model_dump()
    stream.close()
    pixels = "QUJD" * 5_000_000
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixels}"}}
    parts = [{"role": "user", "content": [{"type": "text", "text": "what is this?"}, image]}]
    told["image"] = client.chat.completions.create(model="m", messages=parts).model_dump()
    told["responses"] = [one.model_dump() for one in client.responses.create(model="m", input="hi", stream=True)]
    receipt = client.responses.create(model="m", input="hi", background=True)
    told["background"] = receipt.model_dump()
    told["delivered"] = [one.model_dump() for one in client.responses.retrieve(receipt.id, stream=True)]
    told["embeddings"] = client.embeddings.create(model="m", input="hi", encoding_format="float").model_dump()
    json.dump(told, sys.stdout, sort_keys=True)


main()
