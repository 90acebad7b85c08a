"""One exchange: a request is carried to the engine, the response is carried back, and an observer is told of both.

All of it is callbacks on the event loop; nothing here waits, except for a connection to open. The order in a read is
always the same: parse, write, then observe, so that measuring does not delay the bytes. (The one exception is a stream
from which the usage chunk is cut: there the cut must see an event before it is written.)

An exchange ends exactly once, in `_over`, whatever happens in whatever order: the response was sent whole, the client
left, the engine failed, a limit was exceeded, or the sidecar is shutting down.
"""

import asyncio

from sidecar.budgets.budgets import Budget
from sidecar.proxy.answering import Answering
from sidecar.proxy.chunks import CHUNK
from sidecar.proxy.client import Client
from sidecar.proxy.errors import Failure, of_connecting
from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.guard import Guard
from sidecar.proxy.headers import Framing, RequestHead
from sidecar.proxy.observer import End, Mark
from sidecar.proxy.pace import TakingPace, tunnel_failure
from sidecar.proxy.road import Road
from sidecar.proxy.standstill import Now
from sidecar.proxy.tcp import SendTimes, times_between
from sidecar.proxy.upload import Upload
from sidecar.timeline.outcome import Outcome, outcome_of_status


# The two halves of an exchange run at the same time: an engine may answer while the upload still runs.
#
#   Request   held        `upload.held`: the body is collected for the observer; nothing is sent.
#             forwarded   An idle engine connection is taken, or `_connecting` opens one; the body waits in `upload`.
#             sending     `_engine` is set: each piece goes out as it comes. `upload.complete`: the client has sent all;
#                         `upload.sent_at`: the engine's socket has all.
#   Response  none        `_response` is None: a failure is answered with an error.
#             begun       `_response` is set: a failure cuts the response short. The limit of the first byte holds until the
#                         first output, that of the gap from then on. After a 101 (`tunnel`) bytes pass both
#                         ways until either side closes, time limits no longer apply, and the outcome is ok.
#             complete    `_response_complete`: the engine's connection is released; the client must take the rest.
#   Over      `_ended`    Late calls change nothing.
#
# Four methods may end an exchange. Each returns if `_ended` is set, so the first one decides the outcome:
#   client_flushed   the client's socket took the last byte: outcome by the status;
#   client_left      the client closed: cancelled, unless it already had the stream's end mark;
#   engine_failed    the engine's connection closed too early, or sent no valid HTTP;
#   fail             all else: a time limit (`overdue`, asked by the sweep), a body too large, a malformed upload, no
#                    connection to the engine, the end of the grace period at shutdown.
# `_over` closes the engine's connection if it is still held, closes the observer with the one `End`, and lowers
# `in_flight`. The method that ended the exchange then tells the client's side what follows.
class Exchange(Answering):
    """One request and its response."""

    def __init__(self, road: Road, client: Client, head: RequestHead, observer: Guard, at: float) -> None:
        road.in_flight += 1
        self.road = road
        self.client = client
        self.head = head
        self.observer = observer
        self.tunnel = False
        self.upload = Upload(head, observer, road.limits.look_in_bytes, road.budgets.held, road.clock)
        self.began_at = at
        self.moved_at = at
        """When the last byte of the request, or of a tunnel from the client, came."""
        self.place: Budget | None = None
        self._engine: EngineConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self.engine_read_at = at
        self._proof: str | None = None
        # response
        self._response = None
        self._framing = Framing.NONE
        self._chunked = False
        self._keep_alive = False
        self._transport = client.transport
        self._out = []
        self._cutter = None
        self._response_complete = False
        self._sent_before = None
        self._delivery: SendTimes | None = None
        self._taking: TakingPace | None = None
        self._uploading = False
        self._ended = False

    # --- upload: client to engine ------------------------------------------------------------------------------------

    def client_body(self, data: bytes, at: float) -> None:
        """A piece of the request body."""
        self.moved_at = at
        upload, limits = self.upload, self.road.limits
        held = upload.held
        if not held and self.head.content_length == upload.size + len(data) and not self._finds_place(takes=True):
            return
        upload.body(data)
        if upload.size > limits.max_body_bytes:
            self.fail(Failure.BODY_TOO_LARGE, at)
        elif held:
            if not upload.held:
                self.forward()
        elif upload.waiting_bytes > limits.client_buffer_bytes:
            self.client.pause_upload()

    def client_pauses(self, at: float) -> None:
        """All that has come is read, and the request is not complete: it is one of the uploads from now on."""
        if not self._uploading and not self._ended:
            self._uploading = True
            self.road.uploads.enter(self, at)

    def client_end(self, at: float) -> None:
        """The request is complete."""
        held = self.upload.held
        if self._uploading:
            self.road.uploads.leave(self)
        if not held and self.place is None and not self._ended and not self._finds_place(takes=True):
            return
        self.upload.end(at)
        if held and self.upload.looking is None:
            self.forward()

    def forward(self) -> None:
        """Find a connection to the engine: an idle one now, or a new one soon. None is sought if all places are taken."""
        if not self._finds_place(takes=self.upload.complete or self.head.framing is Framing.NONE):
            return
        idle = self.road.pool.take()
        if idle is not None:
            self._use(idle)
            return
        self._open()

    def _finds_place(self, *, takes: bool) -> bool:
        """Whether a place is free, which the request takes if it `takes` one; if none is, it fails.

        It takes its place just before it is whole, and is one of the uploads until then. Once its answer has begun it is
        counted and never refused: the engine works for it already.
        """
        failure = self.road.places.refusal(self, takes=takes, answered=self._response is not None)
        if failure is not None:
            self.fail(failure, self.road.clock())
            return False
        return True

    def _open(self) -> None:
        self.observer.mark(Mark.CONNECTING, self.road.clock())
        self._connecting = self.road.spawn(self._connect())

    async def _connect(self) -> None:
        engine: EngineConnection | None = None
        try:
            engine = await self.road.pool.connect(self.road.engine_limits.connect_timeout_seconds)
            self._connecting = None
            if self._ended:
                engine.abort()
                return
            self.observer.mark(Mark.CONNECTED, self.road.clock())
            self._use(engine)
        except Exception as error:  # noqa: BLE001  no caller awaits this task: an unexpected error must end the request too
            self._connecting = None
            failure = of_connecting(error) if engine is None and isinstance(error, OSError) else Failure.INTERNAL
            self.fail(failure, self.road.clock())

    def _use(self, engine: EngineConnection) -> None:
        """Send the request over this engine connection."""
        self._engine = engine
        engine.serve(self, self.head.method, websocket=self.head.websocket)
        if self.client.reading_paused:
            self.client.resume_upload()
        if self._proof is None:
            self.upload.start(engine, authority=self.road.engine_authority, via=self.road.via)
        else:
            self.upload.start_again(engine)
        self.engine_read_at = self.road.clock()

    @property
    def may_send_again(self) -> bool:
        """Whether the whole request is still in memory, and was sent only once."""
        return self._proof is None and self._response is None and self.upload.whole_in_memory

    def engine_never_had_it(self, proof: str) -> None:
        """The engine had closed before the request came (`idle_edge.py`): send it once more, on a new connection."""
        if self._ended:
            return
        self._engine, self._proof = None, proof
        self.road.resent()
        self._open()

    def engine_blocked(self) -> None:
        """The engine's socket is full: stop reading the upload."""
        self.engine_read_at = self.road.clock()
        self.client.pause_upload()

    def engine_unblocked(self) -> None:
        """The engine's socket took everything."""
        self.moved_at = self.engine_read_at = self.road.clock()
        self.upload.written()
        self.client.resume_upload()

    # --- response: engine to client ----------------------------------------------------------------------------------

    def _answered(self, at: float) -> None:
        """The engine has sent the whole response: release its connection, and wait until the client's socket has it."""
        try:
            self.observer.inner.mark(Mark.ENDED, at)
        except Exception:  # noqa: BLE001  see `guard.py`
            self.observer.blinded()
        if self._engine is not None:
            engine, self._engine = self._engine, None
            self.upload.stop()
            engine.release(upload_complete=self.upload.sent_at is not None)
        if self.client.flush():
            self.client_flushed(self.road.clock())
            return
        self._taking = TakingPace(at, self.client.unsent_bytes)
        if self._sent_before is None and self.observer.wants_body:
            self._sent_before = self.client.send_reading()

    def client_flushed(self, at: float) -> None:
        """The client's socket took the last byte."""
        if self._ended or not self._response_complete or self._response is None:
            return
        try:
            self.observer.inner.mark(Mark.FLUSHED, at)
        except Exception:  # noqa: BLE001  see `guard.py`
            self.observer.blinded()
        if self._sent_before is not None and (sent := self.client.send_reading()) is not None:
            self._delivery = times_between(self._sent_before, sent)
        self._over(at, outcome_of_status(self._response.status), None)
        if self.upload.complete:
            self.client.exchange_over(keep_alive=self._keep_alive)
        else:
            self.client.linger()

    # --- the client's pace -------------------------------------------------------------------------------------------

    def client_blocked(self) -> None:
        """The client does not keep up: stop reading from the engine. Other streams are not affected."""
        at = self.road.clock()
        self._taking = TakingPace(at, self.client.unsent_bytes)
        if self._engine is not None:
            self._engine.pause_reading()
            self.observer.mark(Mark.PAUSED, at)

    def client_unblocked(self) -> None:
        """The client has caught up."""
        at = self.road.clock()
        self._taking = None
        self.observer.mark(Mark.RESUMED, at)
        if self._engine is not None:
            self.engine_read_at = at
            self._engine.resume_reading()

    def client_tunnel(self, data: bytes) -> None:
        """Pass on bytes that the client sent into a tunnel."""
        if data and self._engine is not None:
            self.moved_at = self.road.clock()
            self._engine.write(data)

    # --- the ends ----------------------------------------------------------------------------------------------------

    def client_left(self, at: float) -> None:
        """The client closed or reset its connection: the engine must stop working for it, now."""
        if self._ended:
            return
        if self.tunnel:
            self._over(at, Outcome.OK, None)
        elif self.observer.done and self.client.unsent_bytes == 0 and self._response is not None:
            # The client has the stream's own end mark; it did not wait for the end of the framing.
            self.observer.mark(Mark.ENDED, at)
            self.observer.mark(Mark.FLUSHED, at)
            self._over(at, outcome_of_status(self._response.status), None)
        else:
            self._over(at, Outcome.CLIENT_CANCELLED, None)

    def engine_failed(self, failure: Failure, at: float) -> None:
        """The engine's connection is closed, or its bytes were no valid HTTP."""
        self._engine = None
        if self.tunnel:
            if not self._ended:
                self._over(at, Outcome.OK, None)
                self.client.close_when_flushed()
            return
        silent_since = max(self.moved_at, self.engine_read_at)
        self.fail(self.upload.or_stalled(failure, at, silent_since, excused=self.client.reading_paused), at)

    def fail(self, failure: Failure, at: float) -> None:
        """End the exchange because of `failure`: answer it if no response has begun, else cut the response short."""
        if self._ended:
            return
        answered = self._response is not None
        if self._cutter is not None and (held := self._cutter.rest()):
            self._send(at, CHUNK % (len(held), held) if self._chunked else held)
        if answered and self.observer.done and self.client.unsent_bytes == 0:
            self.observer.mark(Mark.FLUSHED, at)  # the client has the stream's own end mark
        self._over(at, failure.outcome, failure)
        if not answered:
            self.client.answer(failure, bodyless=self.head.method == b"HEAD", upload_complete=self.upload.complete)
        else:
            self.client.cut_short(reset=self._framing is Framing.UNTIL_CLOSE)

    def _over(self, at: float, outcome: Outcome, failure: Failure | None) -> None:
        self._ended = True
        if self._uploading:
            self.road.uploads.leave(self)
        if not self.upload.stopped:
            self.upload.stop()
        if self.place is not None:
            self.road.places.give_back(self, self.place)
            self.road.drain.count += self.place is self.road.budgets.requests
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._engine is not None:
            engine, self._engine = self._engine, None
            if self.tunnel:
                engine.close()
            else:
                engine.abort()
        status = None if self._response is None else self._response.status
        self.road.endings.close(self.observer, at, End(outcome, failure, status, self._delivery, self._proof))
        self.road.in_flight -= 1

    def overdue(self, now: Now) -> Failure | None:
        """The time limit that has passed, or None. Asked a few times a second, so that no event has to move a timer."""
        limits, engine_limits = self.road.limits, self.road.engine_limits
        if self._ended:
            return None
        if self.tunnel:
            return tunnel_failure(now, self.began_at, max(self.moved_at, self.engine_read_at), limits)
        engine, excused = self._engine, self.client.reading_paused
        if engine is not None and self._proof is None and not engine.in_question:
            self.upload.swept()
        # Asked at every sweep, so that it knows all the time in which the client was not read.
        slow = self.upload.failure(now, self.began_at, self.moved_at, limits, excused=excused)
        if self._taking is not None:
            return self._taking.failure(now, self.client.unsent_bytes, limits)
        if engine is not None and engine.unread_bytes:
            return slow  # what the engine has sent waits for its turn
        if engine is not None and engine.blocked:
            late = now.since(self.engine_read_at) > engine_limits.first_byte_timeout_seconds
            return Failure.ENGINE_FIRST_BYTE_TIMEOUT if late else None
        if slow is not None:
            return slow
        sent_at = self.upload.sent_at
        if self._response is not None and not (sent_at is not None and self.observer.awaits_output):
            late = now.since(self.engine_read_at) > engine_limits.gap_timeout_seconds
            return Failure.ENGINE_GAP_TIMEOUT if late else None
        late = sent_at is not None and now.since(sent_at) > engine_limits.first_byte_timeout_seconds
        return Failure.ENGINE_FIRST_BYTE_TIMEOUT if late else None
