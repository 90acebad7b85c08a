"""The Anthropic SDK asks one server: `python asks_anthropic.py BASE_URL` prints what it was told, as JSON. Run as a program of its own."""

import json
import sys
from typing import Any

from anthropic import Anthropic


def main() -> None:
    client: Any = Anthropic(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=60)
    ask = [{"role": "user", "content": "hi"}]
    told: dict[str, object] = {}
    with client.messages.stream(model="m", max_tokens=99, messages=ask) as stream:
        told["text"] = "".join(stream.text_stream)
        told["message"] = stream.get_final_message().model_dump(mode="json")
    told["counted"] = client.messages.count_tokens(model="m", messages=ask).model_dump()
    json.dump(told, sys.stdout, sort_keys=True)


main()
