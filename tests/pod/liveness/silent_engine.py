"""An engine as `Silence` sees it, with methods that take the instant first."""

from sidecar.pod.liveness.silence import Silence


class Engine:
    """A `Silence` with methods that take the instant first. Prefill costs are 0.1 s unless said otherwise."""

    def __init__(self) -> None:
        self.silence = Silence()

    def asked(
        self,
        at: float,
        key: str,
        *,
        cost: float | None = 0.1,
        streaming: bool = True,
        answer: float | None = None,
        whole: bool = False,
    ) -> None:
        self.silence.received(key, at, streaming=streaming, cost_seconds=cost, answer_seconds=answer, whole=whole)

    def streams(self, at: float, key: str) -> None:
        """A request that has its first output at this instant."""
        self.asked(at, key)
        self.silence.began(key, at)

    def checked(self, at: float) -> tuple[float, float]:
        """(seconds silent, seconds of prefill work that were pending when the silence began)."""
        silent = self.silence.check(at)
        return round(silent.seconds, 9), round(silent.expected_seconds, 9)

    def unseen(self, at: float) -> float:
        """Seconds of silence that only an unseen answer may explain."""
        return round(self.silence.check(at).unseen_seconds, 9)

    def stalled(self, at: float) -> float:
        self.silence.check(at)
        return round(self.silence.stalled_seconds, 9)
