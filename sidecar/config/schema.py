"""The typed, frozen shape of a configuration: each key's type, range and default, and the reason for the default.

Knows which keys need a restart. `file.py` knows where values come from (files, flags, the environment), `checks.py` which values
contradict each other. Keys are the attribute names; durations are seconds, or have a unit; sizes are bytes. The precedents in the reasons are
the defaults of other proxies (nginx, HAProxy, Envoy, linkerd).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, Self

from msgspec import UNSET, UnsetType

from sidecar.budgets.budgets import ACCOUNTS_BYTES
from sidecar.config.origins import Sources
from sidecar.config.section import NO_KEYS, Accepted, After, Before, Flag, Limits, Mark, Section
from sidecar.config.values import (
    OR_NONE,
    Address,
    BucketLabel,
    CollectorUrl,
    DeclaredLane,
    EngineKey,
    EngineUrl,
    Exact,
    ExactTexts,
    FileName,
    Folder,
    GrpcAddress,
    HeaderName,
    HostName,
    LabelValue,
    LaneName,
    ListenAddress,
    ModelName,
    OpenHeader,
    PathEnd,
    Paths,
    Patterns,
    Priority,
    Seconds,
    Sha256,
    Share,
    Target,
    Threshold,
    Tokens,
    TokenThreshold,
    WebConfigFile,
    WorkerUrl,
    empty_is_unsaid,
    none_is_off,
    parse_address,
    parse_engine,
    rising,
    several,
)
from sidecar.config.written_durations import as_seconds
from sidecar.engines.engine import AUTO, NONE
from sidecar.engines.kinds import KINDS
from sidecar.ledger.request_labels import OTHER, UNKNOWN
from sidecar.metrics.declaration import SERIES_LIMIT, NativeForm, Profile
from sidecar.objectives.objective import Aim
from sidecar.timeline.apis import API_OF_NAME


if TYPE_CHECKING:
    KindName = str
    ApiName = str
else:
    KindName = Literal[AUTO, *KINDS, NONE]
    ApiName = Literal[*API_OF_NAME]


RESTART = Mark("restart")
"""A reload refuses to change the key: sockets depend on it, or series that were already scraped.

(Header count and buffer size bound the engine's pooled connections too, which stay open across a reload.)
"""
OF_TRAFFIC = Mark("traffic")
"""The key, or each of the section, acts on traffic, and has no use with spans.without_proxy."""


class EnginePathsConfig(Section):
    """Paths that are inference besides those that are known, and known ones that are not."""

    add: Annotated[Mapping[PathEnd, ApiName], Limits(max_length=64)] = NO_KEYS
    """The last segments of a path to the API that is served there: `/my/llm: openai_chat`. What stands before them does not matter."""
    exclude: Annotated[tuple[PathEnd, ...], Before(several), Limits(max_length=64)] = ()
    """The last segments of paths that are passed on uncounted: `/v1/embeddings`."""


class EngineConfig(Section):
    """The one inference server behind this sidecar."""

    url: Annotated[EngineUrl, RESTART, Flag("URL", "the engine, http://host:port or unix:/path")]
    """Required, because a guessed engine could be the wrong one. HTTP only; without a port, 80. unix:/path is a Unix socket."""
    kind: Annotated[KindName, RESTART] = AUTO
    """The engine's product. auto detects it; none reads no reports and asks the engine for nothing but its health."""
    models: Annotated[tuple[ModelName, ...], Before(several), Limits(max_length=16), RESTART] = ()
    """The closed set of `model` label values; if empty, the models of the engine's /v1/models, and those that its answers prove. A request for another name counts as `other`, unless an answer showed for which of these the name stands."""
    api_key_file: FileName = ""
    """A file with the engine's own API key (vLLM --api-key), such as a mounted Secret. The sidecar asks for the models with it, and reads it each time. Requests carry their clients' keys."""
    api_key: EngineKey = ""
    """The key itself, for SIDECAR__ENGINE__API_KEY from a Secret: in a file of the config, all who read that would have it."""
    model_size_billions: Annotated[float, Limits(gt=0, le=100_000)] | None = None
    """Billions of parameters that a token passes (the active ones of a mixture of experts): presets give larger models more time per token. Unset, a size in the names of engine.models counts (-70b, 30B-A3B), else none."""
    paths: Annotated[EnginePathsConfig, OF_TRAFFIC] = EnginePathsConfig()
    """Inference is told by the last segments of a path; most servers need nothing here."""
    metrics_port: Annotated[int | None, Limits(ge=1, le=65535), RESTART] = None
    """Port of the engine's own metrics, if it is not the port of its API; Triton's is 8002."""
    worker_metrics_urls: Annotated[tuple[WorkerUrl, ...], Before(several), Limits(max_length=16), RESTART] = ()
    """Addresses (http://host:port) of all workers' own metrics, where a front end of kind dynamo has workers with pages of their own, those of prefill and decode among them: for waiting and running requests, KV cache and the engine's counts. Dynamo's stand at DYN_SYSTEM_PORT. A worker counts for this pod alone: with several front ends before the same workers leave it empty."""
    scrape_llama_cpp: Annotated[bool, RESTART] = False
    """Read llama.cpp's metrics too. Each read resets two of its gauges, for all other readers as well."""
    sglang_metrics_dir: Annotated[Folder, RESTART, OF_TRAFFIC] = ""
    """The directory of SGLang's --export-metrics-to-file-dir, mounted here read-only: gives the exact split on its OpenAI paths, without spans."""
    perf_metrics_dir: Annotated[Folder, RESTART, OF_TRAFFIC] = ""
    """The directory of TensorRT-LLM's perf_metrics_output_dir, mounted here read-only: for requests whose answers do not state their times."""
    request_trace_dir: Annotated[Folder, RESTART, OF_TRAFFIC] = ""
    """The directory in which Dynamo's DYN_REQUEST_TRACE_OUTPUT_PATH lies, mounted here read-only: for clients that do not ask for nvext.timing. Files are read whose names end in .jsonl or .jsonl.gz."""
    poll_perf_metrics: Annotated[bool, RESTART, OF_TRAFFIC] = False
    """Poll /perf_metrics of a TensorRT-LLM before PR 16668 while a request waits for its entry. Each read empties the list, for all other readers as well. With perf_metrics_dir it has no effect."""
    timing_header: Annotated[HeaderName | None, OF_TRAFFIC] = None
    """A header of answers that are not streamed, in the form of Server-Timing, from which the times of a request are read although the engine's kind is not known to send it: `queue` beside `prefill` or `ttft`, in milliseconds."""
    replicated: Annotated[bool, RESTART, OF_TRAFFIC] = False
    """The workload states at least two replicas (`sidecar inject` writes it). A pod with a stalled engine then leaves its Service 20 to 60 s after the last output, drawn once, so that pods behind one shared cause do not leave at one instant; else after 60 s."""
    estimate: Annotated[Literal["auto", "never"], RESTART, OF_TRAFFIC] = "auto"
    """auto splits a TTFT without a report by what such prompts cost; with never, it stays unattributed."""
    connect_timeout_seconds: Annotated[Seconds, OF_TRAFFIC] = 2.0
    """The engine is on loopback: a connect that takes longer is a full accept queue (Envoy 5 s, linkerd inbound 0.3 s). If its name has several addresses, they share this time: the next attempt begins 0.25 s after the one before, which goes on (RFC 8305)."""
    first_byte_timeout_seconds: Annotated[Seconds, OF_TRAFFIC] = 600.0
    """The first output must come within this time, whatever head, ping or role frame came before: a queue may be minutes long (nginx 60 s is too short)."""
    gap_timeout_seconds: Annotated[Seconds, OF_TRAFFIC] = 300.0
    """The longest pause behind the first output (Envoy's stream idle timeout is 5 min), not a limit on the whole length of an answer."""
    pool_idle_seconds: Annotated[float, Before(as_seconds), Limits(ge=0, le=3), OF_TRAFFIC] = 3.0
    """Below the 5 s at which uvicorn closes idle connections, or POSTs fail on the race (linkerd 3 s); 0 keeps none."""

    @property
    def address(self) -> Address:
        return parse_engine(self.url)

    @property
    def metrics_url(self) -> str:
        """Base URL of the engine's metrics, without a path."""
        if self.metrics_port is None:
            return self.url
        host = self.address.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.metrics_port}"


class ProxyConfig(Section):
    """The traffic listener and its limits."""

    listen_address: Annotated[ListenAddress, RESTART, Flag("ADDRESS", "address for clients")] = ":8900"
    """The address for clients: the Service's target port. Without a host every interface, of IPv4 and, where the kernel has it, of IPv6."""
    max_in_flight: Annotated[int, Limits(ge=1, le=100_000)] = 1024
    """Requests at once, above which 503 and Retry-After are answered and counted (Envoy's breaker: 1024). An unfinished upload is none yet."""
    max_uploads: Annotated[int, Limits(ge=0, le=1_000_000)] = 0
    """Requests whose body has not come whole; above it the slowest gets 408. 0: as many as requests at once."""
    max_connections: Annotated[int, Limits(ge=0, le=1_000_000)] = 0
    """Open client connections; above it the one that has been idle longest is closed. 0: derived from memory and files (docs/budgets.md)."""
    max_connections_per_peer: Annotated[int, Limits(ge=0, le=1_000_000)] = 0
    """Open connections from one address, above which a further one gets 503. 0: no such share, because an ingress is one address."""
    max_tunnels: Annotated[int, Limits(ge=0, le=1_000_000)] = 0
    """Websockets at once; above it one that is silent for 60 s makes room, or 503 is answered. 0: a quarter of the requests at once."""
    tunnel_idle_timeout_seconds: Seconds = 3600.0
    """A websocket on which no byte has passed for this long is closed (Envoy's TCP proxy: 1 h)."""
    tunnel_total_timeout_seconds: Annotated[float, Before(as_seconds), Limits(gt=0, le=2_592_000)] = 86400.0
    """The longest life of a websocket: a day, so that none outlives its credentials for ever."""
    max_head_bytes: Annotated[int, Limits(ge=1024, le=1 << 20)] = 65536
    """Request line and headers together, above which 431 (Envoy 60 KiB, nginx 4 x 8 KiB)."""
    max_headers: Annotated[int, Limits(ge=8, le=10_000), RESTART] = 128
    """Header fields in a request, above which 431 (Envoy 100, HAProxy 101, aiohttp 128)."""
    max_body_bytes: Annotated[int, Limits(ge=1024, le=1 << 40)] = 64 << 20
    """Request body, above which 413. Bodies are streamed, so this bounds uploads and not memory; room for several images."""
    look_in_bytes: Annotated[int, Limits(ge=0, le=16 << 20)] = 1 << 20
    """Bytes of a body that are held to be read before it goes on. A longer body goes on at once and is read while it passes; usage is not asked for in it."""
    head_timeout_seconds: Seconds = 75.0
    """A request head must be complete within this time, so that slow headers cannot hold sockets for ever (nginx 60 s)."""
    keep_alive_seconds: Seconds = 620.0
    """An idle client connection is closed after this time: longer than callers keep theirs, or a request meets the close (Google's load balancers 600 s, llm-d's proxy 90 s). Where files are few, the one that has been idle longest is closed first."""
    body_gap_timeout_seconds: Seconds = 60.0
    """The longest pause inside an upload (nginx 60 s between reads). upload_min_bytes_per_second may end it sooner: by default an upload of fewer than 4,800 bytes ends 20 s after its head."""
    upload_timeout_seconds: Seconds = 600.0
    """The longest time for a whole request body, pauses of the engine not counted: 64 MiB at 0.9 Mbit/s."""
    upload_min_bytes_per_second: Annotated[int, Limits(ge=0, le=1 << 30)] = 240
    """Mean rate below which an upload older than 20 s is answered 408 (Kestrel 240, Apache's mod_reqtimeout 500); 0: no such floor."""
    client_write_timeout_seconds: Seconds = 60.0
    """A client that takes no byte for this long is disconnected (nginx send_timeout 60 s)."""
    client_min_bytes_per_second: Annotated[int, Limits(ge=0, le=1 << 30)] = 240
    """Mean rate below which a client is disconnected that has left bytes waiting here for client_write_timeout_seconds (Kestrel 240); 0: no such floor."""
    client_buffer_bytes: Annotated[int, Limits(ge=4096, le=16 << 20), RESTART] = 65536
    """High-water mark per stream, above which reading from the engine pauses (Envoy's edge advice 32 KiB)."""
    max_event_bytes: Annotated[int, Limits(ge=1024, le=64 << 20)] = 64 << 10
    """One event of a stream. Of a longer one only the outline is held while it passes: its members without long texts and lists. Usage and finish are read of both."""
    via: Literal["off", "on"] = "off"
    """on adds `Via: 1.1 llm-phase-sidecar` to requests to the engine, as RFC 9110 7.6.3 asks; off adds no header."""
    include_usage: Literal["auto", "always", "never"] = "auto"
    """auto asks for the usage chunk, of engines proven to accept that, and cuts it out again; always asks servers that are not recognised too; with never, bodies stay untouched."""

    ask_timing: Literal["auto", "never"] = "auto"
    """auto asks an engine that reports on request (TensorRT-LLM) for the times of each request by a header field, and takes out of the answer what that adds to it; with never, heads stay untouched."""

    @property
    def address(self) -> Address:
        return parse_address(self.listen_address)


class WebConfig(Section):
    """The admin listener: metrics, health, status page."""

    listen_address: Annotated[
        ListenAddress, RESTART, Flag("ADDRESS", "address for metrics, health and the status page")
    ] = ":9901"
    """Apart from traffic, because the engine has a /metrics of its own. Write endpoints answer loopback only."""
    config_file: Annotated[
        WebConfigFile,
        RESTART,
        Flag("FILE", "TLS and passwords of the admin listener, as for Prometheus' exporters", "--web.config.file"),
    ] = ""
    """TLS and passwords of the admin listener, in the format of Prometheus' exporters; its content is read again when it changes. Without it: plain HTTP, no password."""
    allowed_hosts: Annotated[tuple[HostName, ...], Before(several), Limits(max_length=64)] = ()
    """Further host names, without a port, under which the admin side answers over plain HTTP without passwords. IP addresses, localhost, the pod's host name and the Service llm-phase-sidecar always pass; others get 421, because the name may be a foreign web page's (docs/access.md)."""
    native_histograms: Annotated[NativeForm, RESTART] = "off"
    """Form of histograms for a scraper that asks for Prometheus' protobuf format: `beside`, native ones with their classic buckets; `only`, native ones alone: one series where a classic histogram has some thirty (docs/attach.md says what still reads the classic ones); `off`, no protobuf. Others get classic ones."""

    @property
    def address(self) -> Address:
        return parse_address(self.listen_address)


class LaneRule(Section):
    """One rule: it takes a request for which all its conditions hold. A condition on what the request does not say does not hold."""

    lane: LaneName
    """The lane of a request for which every condition below holds."""
    headers: Annotated[Mapping[HeaderName, Patterns], Limits(min_length=1, max_length=16)] | None = None
    """Header name to value or values, one of which must be the header's value, case-sensitively. `*` takes any value."""
    paths: Paths | None = None
    """The request's path as the client wrote it, without its query."""
    models: Patterns | None = None
    """The body's `model`."""
    streaming: bool | None = None
    """The body's `stream`; false if a body that was read whole does not have it."""
    api_keys: ExactTexts | None = None
    """Names from `lanes.api_keys`."""
    max_tokens_at_least: Tokens | None = None
    """Lower bound of the body's `max_tokens` (or `max_completion_tokens`, `max_output_tokens`)."""
    max_tokens_at_most: Tokens | None = None
    """Upper bound of the same."""
    prompt_tokens_from: Tokens | None = None
    """Lower bound of the prompt's length in tokens, as the client counts it or as it is estimated from its text when it comes; a length that is not known is in no bound."""
    prompt_tokens_below: Tokens | None = None
    """Upper bound of the same, exclusive: with the other one, the fast and the slow lane of long prompts."""
    service_tiers: ExactTexts | None = None
    """The body's `service_tier`."""
    priority_at_least: Priority | None = None
    """Lower bound of the body's `priority`; in vLLM a lower value is served earlier."""
    priority_at_most: Priority | None = None
    """Upper bound of the same."""


class LanesConfig(Section):
    """Sorting of requests into lanes: a closed set of names, so that no text from a client becomes a label."""

    default: LaneName = "default"
    """The lane of requests that no rule takes."""
    header: Annotated[HeaderName | None, OF_TRAFFIC] = None
    """A header whose value names the lane, before any rule; with a value that is not a declared lane, the lane is `other`."""
    span_attribute: Exact | None = None
    """With spans.without_proxy, the attribute of the engine's span whose value names the lane, before any rule, as a header does: a Collector before the sidecar can set one, and `tracestate.KEY` is that key of the client's tracestate."""
    names: Annotated[tuple[LaneName, ...], Before(several), Limits(max_length=32)] = ()
    """Further lanes, which the header or the attribute may name and no rule does."""
    rules: Annotated[tuple[LaneRule, ...], Before(several), Limits(max_length=100)] = ()
    """In order; the first whose conditions all hold decides."""
    api_keys: Annotated[
        Mapping[Exact, Annotated[tuple[Sha256, ...], Before(several), Limits(min_length=1, max_length=16)]],
        Limits(max_length=1000),
        OF_TRAFFIC,
    ] = NO_KEYS
    """Name to the key's SHA-256 (or several, while a key is rotated): no secret is in the config."""

    @property
    def declared(self) -> tuple[str, ...]:
        """Every lane a request can land in: those of the rules in order, the further names, the default, `other`."""
        named = [rule.lane for rule in self.rules]
        return tuple(dict.fromkeys([*named, *self.names, self.default, OTHER]))


PROMPT_BUCKETS = (512, 4096, 16384, 65536)
"""The edges of `prompt_bucket` if the config gives none: tokens, inclusive."""


class PromptBucketsConfig(Section):
    """Prompt lengths, in tokens, as a label."""

    edges: Annotated[
        tuple[Tokens, ...], Before(several), Limits(min_length=1, max_length=15), After(rising), RESTART
    ] = PROMPT_BUCKETS
    """Upper edges, inclusive, rising: chat, documents, long documents, RAG and code bases, whole repositories."""


class AimConfig(Section):
    """Threshold and target of one objective. A bucket takes a value that it leaves out from its lane, a lane from its preset."""

    threshold_seconds: Threshold | None = None
    """A request that takes longer is a miss. A lane's is for prompts of up to 4096 tokens; the preset gives longer ones more."""
    target: Target | None = None
    """The ratio of requests that must be within the threshold: 0.95 allows one miss in twenty. At 1 there would be no error budget."""

    @property
    def aim(self) -> Aim | None:
        """Both, if both are known. `checks.py` refuses a config in which only one is."""
        return (
            None if self.threshold_seconds is None or self.target is None else Aim(self.threshold_seconds, self.target)
        )


class EncodeAimConfig(Section):
    """Threshold and target of what generates nothing."""

    threshold_seconds: Threshold
    """A request whose answer is whole later is a miss; no preset has one, because their work differs most."""
    target: Target = 0.95
    """The ratio of requests that must be within the threshold."""


class TokenAimConfig(Section):
    """As AimConfig, for the time per output token; its threshold does not grow with the prompt."""

    threshold_seconds: TokenThreshold | None = None
    """A request whose tokens after the first take longer on average is a miss. Seconds: 0.05 is 50 ms, 20 tokens a second."""
    target: Target | None = None
    """As for ttft and e2e."""


class StallAimConfig(Section):
    """As AimConfig, for the longest gap of a stream; its threshold does not grow with the prompt."""

    threshold_seconds: Threshold | None = None
    """A request whose output stood still for longer is a miss; time in which its client did not read is taken off. It should be above the time between two events of an engine that sends several tokens in each."""
    target: Target | None = None
    """As for ttft and e2e; the preset `interactive` has one of its own."""


class BucketObjectivesConfig(Section):
    """Objectives for requests. `none` switches one off; one that is left out is the lane's, or the preset's."""

    ttft: Annotated[AimConfig | UnsetType | None, Before(none_is_off), OR_NONE] = UNSET
    """Streamed requests: from the request's last byte to the first token."""
    tpot: Annotated[TokenAimConfig | UnsetType | None, Before(none_is_off), OR_NONE] = UNSET
    """Streamed requests: time per output token after the first. Apart from ttft, because it has other causes."""
    e2e: Annotated[AimConfig | UnsetType | None, Before(none_is_off), OR_NONE] = UNSET
    """Requests that are not streamed: from the request's last byte to the answer's. They have no first token."""
    stall: Annotated[StallAimConfig | UnsetType | None, Before(none_is_off), OR_NONE] = UNSET
    """Streamed requests: the longest gap between two outputs, or from the last one to the end. A mean, such as tpot, hides one long gap."""


class BlameSharesConfig(Section):
    """Planned share of each phase in a TTFT threshold; the shares add up to 1."""

    queue: Share
    """Waiting for the engine's scheduler."""
    prefill: Share
    """The passes over the prompt."""
    first_token: Share
    """All else before the first token: tokenising, network, delivery."""


class LaneObjectivesConfig(BucketObjectivesConfig):
    """One lane's objectives."""

    encode_e2e: EncodeAimConfig | None = None
    """The whole answer of embeddings, reranking, scores and transcriptions; unset, they have no objective."""
    preset: Literal["interactive", "batch", "code", "voice", "agent", "none"] | None = None
    """Values of all that is left out. Unset, the lane's name decides: interactive, chat and default are interactive; batch is batch; code and completion are code; voice is voice; agent and agents are agent; others none."""
    prompt_buckets: Annotated[
        Mapping[BucketLabel, Annotated[BucketObjectivesConfig, Before(empty_is_unsaid)]], Limits(max_length=17)
    ] = NO_KEYS
    """ttft, tpot, e2e and stall of a prompt bucket that differs: long prompts cannot be as fast as short ones."""
    blame_shares: BlameSharesConfig | None = None
    """A miss is blamed on the phase that is furthest above its share of the threshold; unset: queue 0.28, prefill 0.69, first_token 0.03."""


LaneObjectives = Annotated[LaneObjectivesConfig, Before(empty_is_unsaid)]


class LabelsConfig(Section):
    """Labels that are the same on every series of this process."""

    quantization: Annotated[LabelValue, RESTART] = UNKNOWN
    """The weights' format (fp8, awq, ...); if unset, the environment's SIDECAR_QUANTIZATION, else what the engine reports."""
    gpu_type: Annotated[LabelValue, RESTART] = UNKNOWN
    """The accelerator (H100, L40S, ...); if unset, the environment's SIDECAR_GPU_TYPE, else what the engine reports."""


class MetricsConfig(Section):
    """Detail and number of the exposed series."""

    profile: Annotated[Profile, RESTART] = "full"
    """The content of `/metrics`; all is counted in either. `lean`, for hundreds of pods: what rules, alerts, autoscaling and a rollout's gate read, summed over prompt lengths, and no histogram (docs/sizing.md); most panels of the dashboards are then empty and say so."""
    inter_token_by_prompt_bucket: Annotated[bool, RESTART] = False
    """Split the two inter-token histograms by prompt bucket: six times their series, for a dependence often weak."""
    series_limit: Annotated[int, Limits(ge=1000, le=1_000_000), RESTART] = SERIES_LIMIT
    """The most series that one process holds; further ones are dropped and counted. A config that makes more in full use is refused."""


NO_TRAFFIC = "none (--no-proxy): requests are counted from the engine's spans"
"""The words in the place of the address for traffic."""


class SpansConfig(Section):
    """The engine's own spans, taken as OTLP: the exact split where an answer does not carry it. And a span of each request, for your tracing."""

    receive: Annotated[bool, RESTART] = True
    """Takes spans at `POST /v1/traces` on the admin listener; false takes none and makes none, and the client's trace context passes unchanged."""
    receive_from: Annotated[Literal["loopback", "anywhere"], RESTART] = "loopback"
    """loopback if the engine is in the same pod; anywhere if it is not, and nothing else in the network can reach the port."""
    grpc_listen_address: Annotated[GrpcAddress, RESTART] = ""
    """127.0.0.1:4317 takes OTLP over gRPC, for engines that send nothing else; needs `pip install 'llm-phase-sidecar[grpc]'`."""
    any_engine: Annotated[bool, OF_TRAFFIC] = False
    """Makes a span for each request also where the engine's kind is not known, waits up to 10 s for one of its own below it, and reads that as vLLM's attributes are meant."""
    forward_url: Annotated[CollectorUrl, RESTART] = ""
    """Your collector: gets the engine's spans of traces that the client sampled, under the client's span; other spans are not sent. With without_proxy it gets all of them as they came."""
    export_url: Annotated[CollectorUrl, RESTART, OF_TRAFFIC] = ""
    """Your collector: gets a span of each request that the client sampled, below the client's span, with its phases below it and no text (docs/opentelemetry.md)."""
    export_untraced_ratio: Annotated[Share, RESTART, OF_TRAFFIC] = 0.0
    """The share of the requests without a trace that begin one, which spans.export_url gets. A request that its client left unsampled is never sent."""
    without_proxy: Annotated[
        bool,
        RESTART,
        Flag(
            None,
            "open no port for traffic: count requests from the engine's own spans (docs/no_proxy.md)",
            "--no-proxy",
        ),
    ] = False
    """No traffic passes here, and no port is opened for it: requests are counted from the spans of an engine that states each (vLLM, SGLang). The flag is --no-proxy; docs/no_proxy.md says what stays unknown."""

    @property
    def grpc_address(self) -> Address | None:
        return parse_address(self.grpc_listen_address) if self.grpc_listen_address else None


class StateConfig(Section):
    """The memory that outlives a process."""

    directory: Annotated[Folder, RESTART] = ""
    """A directory of this pod alone, which exists and may be written: usual values outlive a restart there (an emptyDir will do), so that a restart in mid-fault does not take the fault for the usual."""


class BaselineConfig(Section):
    """Usual values for a pod that has no past."""

    file: Annotated[FileName, RESTART] = ""
    """A file by `sidecar baseline export` from a healthy pod with the same engine: what broke can be named from the first minute on. state.directory comes first."""


class AccountsConfig(Section):
    """The ring of closed requests, in memory."""

    ring_bytes: Annotated[int, Limits(ge=0, le=1 << 30), RESTART] = ACCOUNTS_BYTES
    """Memory for one row per closed request: arrival, lengths, lane, phases, no text. 16 MiB are 270,000 requests; at most a sixteenth of the memory is used; 0 keeps none."""


class ShutdownConfig(Section):
    """Durations of a shutdown, from SIGTERM or `/-/drain`, whichever comes first."""

    lame_duck_seconds: Annotated[float, Before(as_seconds), Limits(ge=0, le=3600)] = 5.0
    """Not ready but still serving, so that every load balancer notices."""
    grace_seconds: Annotated[float, Before(as_seconds), Limits(ge=0, le=86400)] = 25.0
    """Until the last streams are cut and the process ends, the lame duck included: Kubernetes' default of 30 s less 5."""


class LogConfig(Section):
    """Log lines, on stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Flag("LEVEL", "debug, info, warning or error")] = (
        "info"
    )
    """info has a line per request; warning only lines of requests that failed on the server's side."""
    format: Annotated[
        Literal["auto", "json", "console"], Flag("FORMAT", "json, console or auto: console on a terminal")
    ] = "auto"
    """auto: console on a terminal, else JSON lines."""
    headers: Annotated[tuple[OpenHeader, ...], Before(several), Limits(max_length=32), OF_TRAFFIC] = ()
    """Request headers whose values are logged in a request's line, cleaned and cut; no other header is."""


class Config(Section, dict=True):
    """A whole configuration. `file.load` builds it and also finds contradictions between keys."""

    engine: EngineConfig
    proxy: Annotated[ProxyConfig, OF_TRAFFIC] = ProxyConfig()
    web: WebConfig = WebConfig()
    lanes: LanesConfig = LanesConfig()
    prompt_buckets: PromptBucketsConfig = PromptBucketsConfig()
    objectives: Annotated[Mapping[DeclaredLane, LaneObjectives], Limits(max_length=133)] = NO_KEYS
    labels: LabelsConfig = LabelsConfig()
    metrics: MetricsConfig = MetricsConfig()
    spans: SpansConfig = SpansConfig()
    state: StateConfig = StateConfig()
    baseline: BaselineConfig = BaselineConfig()
    accounts: AccountsConfig = AccountsConfig()
    shutdown: ShutdownConfig = ShutdownConfig()
    log: LogConfig = LogConfig()

    @property
    def sources(self) -> Sources:
        """The source of each key that is set; a config that was not loaded has none."""
        said: Sources = self.__dict__.get("_sources", {})
        return said

    def from_sources(self, sources: Sources) -> Self:
        """The same config, which then knows its sources. They are no part of its value: configs of other sources may be equal."""
        self.__dict__["_sources"] = MappingProxyType(dict(sources))
        return self


WHOLE_CONFIG = Accepted(Config)
"""The kind of a whole config."""
KEYS: Mapping[str, Accepted] = {
    f"{section}.{key}": kind for section, of in WHOLE_CONFIG.keys.items() for key, kind in of.keys.items()
}
"""The keys of all sections, by dotted name."""


def flag_of(key: str) -> str:
    """`--proxy.listen-address`."""
    return next((note.name for note in _flags(key) if note.name), f"--{key.replace('_', '-')}")


def _flags(key: str) -> list[Flag]:
    return [note for note in KEYS[key].notes if isinstance(note, Flag)] if key in KEYS else []


FLAGS = {key: flag for key in KEYS for flag in _flags(key)}
"""Keys that are flags too."""


def restart_needed(old: Config, new: Config) -> list[str]:
    """Dotted keys that differ between the two and can only change with a restart."""
    return [key for key, kind in KEYS.items() if RESTART in kind.notes and _at(old, key) != _at(new, key)]


def _at(config: Config, key: str) -> object:
    section, name = key.split(".")
    value: object = getattr(getattr(config, section), name)
    return value
