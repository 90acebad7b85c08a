"""Whether the pool behind the engine's front end is gone, although the front end answers as before. Pure.

A front end (Dynamo's, a router, a gateway) whose workers have all left is healthy by its own measure: it refuses each request with 404 or 503, or 502 and 504 as
gateways do, and lists no model any more. Neither alone proves anything: a request may ask for a model that is not there, an engine may have too much work, and some
have never had a list (Triton, an old TGI) or wait for their first model (Ollama). So the pool is gone once an engine that this process
saw serve and list models has listed none in `FAILED_CHECKS` checks in a row, and a second sign agrees: it refused a request since it last listed
models, or says itself that it has nothing behind it. It is back as soon as it lists a model, or answers a request well that came
meanwhile; then its list is not believed until it has listed a model again. An answer that never came, or another status, tells nothing of a list.

It knows what was asked and answered. It refuses to know sockets, and what a request is.
"""

from math import inf

from sidecar.lifecycle import FAILED_CHECKS


NOT_HERE = ("404", "502", "503", "504")
"""Statuses with which a front end without a pool refuses requests, and its list: Dynamo 1.6.1 gives 503 for seconds, then 404 for good."""
WHY = "the engine's front end answers, but lists no model any more and serves none: the pool behind it is gone"


class PoolBehind:
    """The pool of one engine. All instants are monotonic seconds."""

    def __init__(self) -> None:
        self.serves = False
        """Whether this process saw it serve."""
        self._listed = False
        """Whether this process saw it list a model."""
        self._lists_none = 0
        """Checks in a row in which it listed no model."""
        self._since = inf
        """Instant of the first of them."""
        self._refused = self._says_so = False
        self.trusted = False
        """It is known to serve, and nothing speaks against its pool: a further good answer would tell nothing."""

    @property
    def gone(self) -> bool:
        return self._lists_none >= FAILED_CHECKS and (self._refused or self._says_so)

    @property
    def in_doubt(self) -> bool:
        """Whether it may be gone, so that its list is asked for at the next check."""
        return (self._lists_none > 0 or self._refused) and not self.gone

    def served(self, came_at: float) -> None:
        """A request that came at this instant was answered well."""
        self.serves = True
        if self._lists_none and came_at >= self._since:
            self._listed = False
            self._is_there()
        self.trusted = not self._lists_none

    def refused(self) -> bool:
        """A request for a model that it lists was refused, with one of `NOT_HERE`. Returns whether it is gone."""
        self._refused = self.serves and self._listed
        return self.gone

    def lists(self, at: float, *, models: bool, says_so: bool = False) -> None:
        """It has answered the question for its models. `models`: it has some. `says_so`: it also says itself that it has none behind it."""
        if models:
            self._listed = True
            self._is_there()
        elif self.serves and self._listed:
            self._since = min(self._since, at)
            self._lists_none += 1
            self._says_so, self.trusted = says_so, False

    def _is_there(self) -> None:
        self._lists_none, self._since = 0, inf
        self._refused = self._says_so = False
