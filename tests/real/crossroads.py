"""OTLP endpoint of a real engine for its whole run: it forwards each batch of spans to the sidecar of the current test.

An engine's endpoint is fixed when it starts, and every test has a sidecar of its own. The endpoint is also an
independent reference: it reads the batches with OpenTelemetry's own messages and not with the sidecar's parser, and
keeps vLLM's values of each generation. Batches between two tests are not forwarded. It can be told to refuse, as a receiver
that is gone.
"""

import gzip
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


SPLIT = {"queue": "time_in_queue", "prefill": "time_in_model_prefill", "decode": "time_in_model_decode"}


class Crossroads:
    """`url` is the endpoint for the engine; `target` the sidecar's, or None to forward nothing; `gone`: refuse with
    503."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.target: str | None = None
        self.gone = False
        self.twice = False
        """Forward each batch twice, as an exporter does that did not receive the answer."""
        self.batches = 0
        self.refused = 0
        self.said: dict[str, dict[str, float]] = {}
        """Generation (`gen_ai.request.id`) to seconds by phase."""
        self.by_tokens: dict[tuple[str, int], dict[str, float]] = {}
        """The same by generation and number of output tokens, for generations that share one id."""
        self.by_trace: dict[str, dict[str, float]] = {}
        """The same by trace id, of the generation that spoke first, with the seconds until it did under `ttft`."""

    def take(self, body: bytes, headers: dict[str, str]) -> int:
        """Handle one batch, and return the status for the answer."""
        if self.gone:
            self.refused += 1
            return 503
        self.batches += 1
        self._read(gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body)
        if self.target is None:
            return 200
        for _ in range(2 if self.twice else 1):
            with urllib.request.urlopen(urllib.request.Request(self.target, body, headers), timeout=10) as answer:
                status = int(answer.status)
        return status

    def _read(self, body: bytes) -> None:
        message = ExportTraceServiceRequest()
        message.ParseFromString(body)
        spans = [span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]
        for span in spans:
            values = {attribute.key: attribute.value for attribute in span.attributes}
            if span.name == "llm_request":
                generation = values["gen_ai.request.id"].string_value
                split = {phase: values[f"gen_ai.latency.{name}"].double_value for phase, name in SPLIT.items()}
                self.said[generation] = split
                self.by_tokens[generation, values["gen_ai.usage.completion_tokens"].int_value] = split
                ttft = values["gen_ai.latency.time_to_first_token"].double_value
                known = self.by_trace.get(span.trace_id.hex())
                if known is None or ttft < known["ttft"]:
                    self.by_trace[span.trace_id.hex()] = {**split, "ttft": ttft}


@contextmanager
def crossroads() -> Iterator[Crossroads]:
    """A crossroads on a port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept = {name: value for name in ("Content-Type", "Content-Encoding") if (value := self.headers[name])}
            self.send_response(where.take(body, kept))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            """No line for each batch."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        where = Crossroads(f"http://127.0.0.1:{server.server_port}/v1/traces")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield where
        finally:
            server.shutdown()
            thread.join()
