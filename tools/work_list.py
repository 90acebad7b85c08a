"""All work that a request, an answer, a span, a scrape or a file can cause in the serving process, each with its limit.

It is the list behind the second table of docs/budgets.md. Each line names the calls of the code that start a thread, a task, a process or a
decompressor for it; a test finds such calls and fails for one that no line names. Limits come from the code's own constants.
"""

from typing import NamedTuple

from sidecar.admin import connections, listener, passwords, workload_download
from sidecar.admin.page import status
from sidecar.classify import inflate
from sidecar.commands.inject import bounded_yaml
from sidecar.engines.probe import probe, scrape, state
from sidecar.engines.reports import export_files, fetcher
from sidecar.logs import writer
from sidecar.observe import baselines, beside
from sidecar.otlp import exporting, forwarding, grpc_listener, intake, limits
from sidecar.pod.usual import baseline
from sidecar.proxy import addresses, endings, read_limit


class Work(NamedTuple):
    """One line. `starts`: `path function: name` of each call below sidecar/ that starts something for it."""

    cause: str
    takes: str
    limit: str
    beyond: str
    told: str
    starts: tuple[str, ...] = ()


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} bytes"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:g} ms"


def _exceeded(budget: str) -> str:
    return f'`llm_sidecar_budget_exceeded_total{{budget="{budget}"}}`'


def _dropped(*reasons: str) -> str:
    return f"`llm_sidecar_dropped_total`: {', '.join(f'`{reason}`' for reason in reasons)}"


_NOTHING_LOST = "nothing: nothing is lost"
_LATE = "`llm_sidecar_event_loop_checks_total`"

WORK = (
    Work(
        "a connection of a client",
        "a file, memory",
        "budgets `connections` and `files`",
        "another one, or this one, is closed",
        _exceeded("connections"),
        ("proxy/server.py Traffic.listen: create_task",),
    ),
    Work(
        "bytes of a request or of an answer",
        "CPU on the loop",
        f"{_ms(read_limit.PARSE_SECONDS)} of one connection in a row, {_ms(read_limit.LOOP_SECONDS)} of all in one turn of the loop",
        "the rest waits for the next turn",
        _LATE,
    ),
    Work(
        "a connection whose client leaves before its bytes were read",
        "nothing",
        "none",
        "its bytes are thrown away",
        _dropped("request_unread"),
    ),
    Work(
        "the body of a request",
        "memory, CPU on the loop",
        "budgets `uploads` and `held_bytes`, `proxy.look_in_bytes`",
        "it is read while it passes, in steps, or not at all",
        _exceeded("held_bytes"),
    ),
    Work(
        "a compressed body of a request",
        "threads, memory, one decompressor a member or frame",
        f"{beside.DECODED_AT_ONCE} at once, for memory that is taken from `held_bytes` before; {inflate.MOST_BODY_MEMBERS} members or"
        f" frames; {_size(inflate.MOST_INFLATED_BYTES)} of text; {beside.MOST_BODIES_WAITING} wait, {_ms(beside.PLACE_WAIT_SECONDS)} each",
        "its length is not read, and the request goes on",
        _dropped("body_no_place", "body_no_memory", "body_too_long", "body_unreadable"),
        (
            "observe/beside.py Threads.start: ThreadPoolExecutor",
            "observe/beside.py Threads.start: run_in_executor",
            "classify/inflate.py _inflate: decompressobj",
            "classify/inflate.py _brotli: Decompressor",
            "classify/inflate.py _zstd: ZstdDecompressor",
        ),
    ),
    Work(
        "a request that finds no idle connection to the engine",
        "a file, a task; a task more for the look-up of the name, and for each of its addresses that is tried",
        "budgets `requests` and `uploads`; an address is tried"
        f" {_ms(addresses.ATTEMPT_DELAY_SECONDS)} after the one before, until `engine.connect_timeout_seconds`",
        "503",
        "`llm_sidecar_failures_total`",
        (
            "proxy/road.py Road.spawn: create_task",
            "proxy/pool.py EnginePool._addresses: create_task",
            "proxy/addresses.py first_connected: create_task",
            "proxy/server.py Traffic.close: gather",
        ),
    ),
    Work(
        "an answer",
        "memory",
        "`proxy.client_buffer_bytes` and `proxy.max_event_bytes` of each request, budget `requests`",
        "the engine is not read any further; of a longer event the outline is kept",
        _dropped("event_too_long"),
    ),
    Work(
        "the end of a request",
        "CPU on the loop, memory",
        f"{endings.CLOSED_IN_A_TURN} are closed in a turn of the loop, {endings.MOST_WAITING} wait; budgets `ledgers` and `accounts`",
        "the oldest is closed at once; the oldest ledger has no report",
        _dropped("report_evicted"),
    ),
    Work(
        "a label value of a request",
        "memory of a series",
        "`metrics.series_limit`, and closed sets of values",
        "it is counted as `other`",
        "`llm_sidecar_label_overflow_total`",
    ),
    Work(
        "a line of the log",
        "memory, disk of the reader; one thread for all",
        f"{writer.MOST_LOG_LINES:,} lines wait",
        "it is not written",
        _dropped("log_limited"),
        ("logs/writer.py LineWriter.__init__: Thread",),
    ),
    Work(
        "a websocket",
        "two files, memory",
        "budget `tunnels`",
        "the most silent one ends, or 503",
        _exceeded("tunnels"),
    ),
    Work(
        "spans that are sent here",
        "memory, CPU on the loop, one decompressor a member",
        f"budget `spans`, of which {intake.HELD_AT_ONCE} are in memory: {_size(limits.MAX_EXPORT_BYTES)} on the wire,"
        f" {_size(limits.MAX_DECODED_BYTES)} inside, {limits.MAX_RATIO} times what came, {limits.MAX_GZIP_MEMBERS} members,"
        f" {limits.MAX_SPANS:,} spans; {_ms(intake.SLICE_SECONDS)} in a row, then a rest of {_ms(intake.REST_SECONDS)}",
        "413 or 503, and no more work",
        _dropped("span_request_refused"),
        ("otlp/inflation.py Inflation.__init__: decompressobj", "otlp/inflation.py Inflation.feed: decompressobj"),
    ),
    Work(
        "a call over gRPC",
        "memory; threads of the library",
        f"{grpc_listener.MAX_CALLS} at once, of {_size(limits.MAX_EXPORT_BYTES)}; no decompressor of the library's own",
        "RESOURCE_EXHAUSTED",
        _dropped("span_request_refused"),
        ("otlp/grpc_listener.py GrpcListener.start: server",),
    ),
    Work(
        "spans that go on to a collector, and its answer",
        "a file, a task for each collector, memory",
        f"{forwarding.MOST_FORWARDED.spans:,} forwarded and {exporting.MOST_EXPORTED.spans:,} exported spans wait; of an answer 64 KiB are read, as"
        " they come",
        "they are dropped",
        f"{_dropped('span_not_forwarded')}; `llm_sidecar_exported_spans_ended_total`",
        (
            "otlp/spans.py Spans.start: create_task",
            "otlp/spans.py Spans.send_last: gather",
            "otlp/outbox.py Outbox.run: ClientSession",
            "otlp/outbox.py _trusted: to_thread",
        ),
    ),
    Work(
        "a connection to the admin port",
        "a file, a task, memory",
        f"{connections.MOST_CONNECTIONS} connections; a handshake has {connections.HANDSHAKE_SECONDS:g} s; bodies are not decompressed",
        "an idle one is closed",
        _NOTHING_LOST,
        ("admin/connections.py Runner: AppRunner", "admin/connections.py _Connection.__init__: create_task"),
    ),
    Work(
        "a scrape of this process",
        "CPU on the loop, a thread for a read of /proc",
        f"{listener.SCRAPES_AT_ONCE} at once, of {listener.SCRAPE_TIMEOUT_SECONDS:g} s, in slices",
        "503",
        '`llm_sidecar_scrapes_total{result="refused"}`',
        ("metrics/exposition.py Pages.write: to_thread",),
    ),
    Work(
        "a password",
        "threads",
        f"{passwords.CHECKS_AT_ONCE} of the lowest priority; {passwords.PLACES} wait, {passwords.PLACES_PER_PEER} of one address",
        "503",
        '`llm_sidecar_admin_logins_total{result="busy"}`',
        (
            "admin/passwords.py Passwords._check: ThreadPoolExecutor",
            "admin/passwords.py Passwords._check: run_in_executor",
            "admin/passwords.py Passwords._check: ensure_future",
            "admin/passwords.py Passwords.right: shield",
        ),
    ),
    Work(
        "the status page",
        "CPU on the loop, a task",
        f"drawn once in {status.FRESH_SECONDS:g} s, in slices, with and without refresh",
        "all who ask get the same page",
        _NOTHING_LOST,
        ("admin/page/status.py StatusPage._page: create_task", "admin/page/status.py StatusPage._page: shield"),
    ),
    Work(
        "another page of the admin port, and a reload",
        "CPU on the loop in slices, a thread of the loop's own",
        "one call of each connection to the admin port; runbooks one at a time; the loop has as many threads as cores and 4, at most 32",
        "it waits for a thread",
        _NOTHING_LOST,
        (
            "admin/runbooks.py Runbooks._answer: to_thread",
            "admin/diagnosis.py Diagnoses._answer: to_thread",
            "admin/listener.py AdminListener._config: to_thread",
            "admin/access.py Access.reload: to_thread",
            "beside_traffic.py BesideTraffic.reload: to_thread",
        ),
    ),
    Work(
        "a download of `/workload.jsonl`",
        "memory, CPU on the loop in slices",
        f"{workload_download.DOWNLOADS_AT_ONCE} at once, {workload_download.DOWNLOAD_SECONDS:g} s each",
        "503",
        _NOTHING_LOST,
    ),
    Work(
        "a drain",
        "two tasks",
        "one in the life of the process; later calls join it",
        "they join it",
        _NOTHING_LOST,
        (
            "shutdown.py Shutdown.drain: create_task",
            "shutdown.py Shutdown.drain: create_task",
            "shutdown.py Shutdown.drain: shield",
        ),
    ),
    Work(
        "an answer of the engine to the sidecar's own questions",
        "a file, memory",
        f"one at a time, each {probe.INTERVAL_SECONDS:g} s, of {probe.TIMEOUT_SECONDS:g} s; {_size(probe.MAX_ANSWER_BYTES)}; not decompressed",
        "the rest is not read",
        "the log",
        ("engines/probe/probe.py Prober.run: ClientSession", "engines/probe/probe.py Prober._answer: to_thread"),
    ),
    Work(
        "the engine's page of metrics, those of its workers, and pages of reports",
        "a file, a task for each worker that the config names, CPU on the loop in steps",
        f"{_size(scrape.MAX_PAGE_BYTES)} of a page ({_size(fetcher.MAX_RECORDS_BYTES)} of reports), {_size(state.STEP_BYTES)} a step; not decompressed",
        "it is not read",
        _dropped("report_source_failed") + "; `llm_engine_scrapes_total`",
        (
            "engines/probe/scrape.py state_session: ClientSession",
            "engines/probe/scrape.py StateProber._with_workers: gather",
            "engines/reports/fetcher.py RecordsPoll.fetch: to_thread",
        ),
    ),
    Work(
        "a file of reports or traces that the engine writes, gzip or not, damaged or not",
        "one thread for all, files, memory, one decompressor a file; CPU on the loop in steps",
        f"{_size(export_files.MAX_READ_BYTES)} a read, {export_files.MOST_NEW} new files in one listing",
        "it is read later; of more new files the oldest are skipped",
        _dropped("report_file_skipped", "report_unreadable"),
        (
            "engines/reports/export_files.py OwnThread.run: Thread",
            "engines/reports/gzip_members.py GzipMembers._begin: decompressobj",
        ),
    ),
    Work(
        "a file of usual values",
        "a thread of the loop's own, disk",
        f"{_size(baseline.MOST_BYTES)} to read; written each {baselines.SAVE_SECONDS:g} s; {baselines.MOST_FILES} files of others are kept",
        "it is refused; the oldest are deleted",
        _dropped("baseline_failed"),
        (
            "observe/baselines.py Baselines.find: to_thread",
            "observe/baselines.py Baselines.save: to_thread",
            "observe/baselines.py Baselines.run: asyncio.wait_for",
            "observe/baselines.py Baselines.last_save: asyncio.wait_for",
        ),
    ),
    Work(
        "the process itself, and its files of TLS and passwords",
        "a fixed number of tasks and threads",
        "each starts once",
        "none",
        _LATE,
        (
            "app.py App.serve: create_task",
            "app.py App._start: create_task",
            "app.py App._start_the_rest: to_thread",
            "app.py App._end: gather",
            "admin/access.py Access.watch: to_thread",
            "admin/listener.py AdminListener._start: create_task",
            "admin/listener.py AdminListener._start: create_task",
            "admin/listener.py AdminListener.stop: gather",
            "health/watchdog.py Watchdog.start: Thread",
            "shutdown.py Shutdown._wait_until: asyncio.wait_for",
        ),
    ),
    Work(
        "a manifest that `sidecar inject` reads (no part of the serving process)",
        "memory, CPU",
        f"{bounded_yaml.MOST_LEVELS} levels; aliases repeat {bounded_yaml.MOST_REPEATED:,} values of a document",
        "it is refused with its place",
        "the exit code",
    ),
)
"""In the order of the page."""
