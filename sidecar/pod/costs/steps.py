"""The engine's steps, rebuilt from the instants at which its streams speak. Pure.

An engine gives each running sequence its next token at the end of a step, so the output of all streams comes in groups.
A group ends when a stream of it speaks again, or after a pause. Output that was read together counts as that many
steps. The time from one group to the next is the length of a step, if some stream spoke in both.

It knows instants and numbers of tokens. It refuses to know what a step costs (`step_model.py`), and to hide that
streams do not speak at each step: the coverage of a step says how many did.
"""

from collections.abc import Hashable
from itertools import islice
from typing import NamedTuple


LONGEST_PAUSE_SECONDS = 0.002
"""A longer pause between two streams' output ends a group."""
PAUSE_SHARE = 0.25
"""So does a pause of this share of the last step: an engine with steps of 4 ms has groups of less than 1 ms."""
SHORTEST_PAUSE_SECONDS = 0.0003
SHORTEST_STEP_SECONDS = 0.0005
"""No engine makes a step in less: two reads of one stream that come closer are one read in two pieces."""
GAP_SECONDS = 1.0
"""A longer time without any output is noted: the engine's silence is told of its end."""
KEPT_ENDED_STEPS = 4096
"""Steps that are kept until they are taken; further ones are dropped. Twenty seconds of 200 steps a second."""
MOST_PROMPTS = 1024
"""Prompts that are noted until a stream speaks; further ones are not. So many share no step: no stream speaks, as where no answer
is streamed at all."""
UNCOUNTED_REQUESTS = 40
"""Answered requests, over all models, until which what a step with a prompt of unknown length had to do is not known: usage soon tells
how long prompts are (of each model, after the COUNTED_PROMPTS of `tokens_per_byte.py`), and a context that counts as empty makes each
step seem dearer than it is usually. A prompt that comes later is taken as one token: here nothing may ever tell lengths."""
UNSPLIT_TOKENS = 128
"""A prompt of up to so many tokens is taken as computed within one step, which it ends with its first token. Schedulers have budgets
of 256 tokens a step and more, most of 2,048 (vLLM `max_num_batched_tokens`, SGLang `chunked_prefill_size`, llama.cpp `n_batch`);
one that decodes spend but for some tokens splits such a prompt too."""
LONGEST_WAITING = 4
"""Requests that waited longest, among whose prompts the one is that is computed now: the others may have no visible output yet."""
MEAN_WEIGHT = 0.02
"""Weight of the newest step in the mean coverage of the last steps."""
STEPS_OF_HELD_TOKENS = 200.0
"""Tokens of an answer that was held back are spread over about so many steps after its end: the steps that made them have
been taken."""


class Prompt(NamedTuple):
    """One prompt, in tokens."""

    tokens: float
    uncached_tokens: float
    """The part that has to be computed."""


class Step(NamedTuple):
    """One step, or the mean of several whose output was read together."""

    ended_at: float
    seconds: float | None
    """Length of each of these steps; None if no stream spoke at both ends."""
    steps: int
    sequences: int
    """Requests that were decoding, seen or unseen."""
    context_tokens: float
    """Tokens in the context of these requests, in sum."""
    coverage: float
    """Events of the streams over the number that one scheduler with an event per sequence and step would send, the
    tokens of answers that were held back among them; at most 1."""
    pure: bool
    """It computed no prompt: none ended with it, and no request waited then whose prompt may take several steps or whose first token
    is not seen."""
    waiting: int
    """Requests that waited for their first token when the step began."""
    prompts: tuple[Prompt, ...]
    """Prompts whose prefill ended with this step."""
    begun: Prompt | None = None
    """The prompt that is computed in parts now, if one is: schedulers take prompts in order, so the longest of the few that waited
    longest when the step began."""
    counted: bool = True
    """The lengths of all prompts inside were known, or will never be, so that it is known how much the step had to do."""
    measured: bool = True
    """The length of each prompt that waited when the step began, or ended with it, was known: else it may hold any part of one."""


class Stream:
    """One stream that has begun. Its `spoke` is called for each token, so it does its work in one call."""

    __slots__ = ("_steps", "context_tokens", "group", "held", "paused")

    def __init__(self, steps: "Steps", context_tokens: float) -> None:
        self._steps = steps
        self.context_tokens = context_tokens
        self.group = steps.group
        """Number of the group in which it spoke last."""
        self.held = False
        """The sidecar does not read it now."""
        self.paused = False
        """Its output says nothing: it is held, or its next read brings all that came while it was."""

    def spoke(self, at: float, events: int) -> None:
        """Output was read: `events` of them, at least 1."""
        steps = self._steps
        if self.paused:
            steps.late_output(self, at)
            return
        if self.group == steps.group or at - steps.last_at > steps.pause_seconds:
            steps.end_group(at)
        steps.last_at = at
        if self.group == steps.group - 1 and (events < steps.fewest_events or not steps.fewest_events):
            steps.fewest_events = events
        self.group = steps.group
        self.context_tokens += events
        steps.context_tokens += events
        steps.events += events


class Steps:
    """All requests of one engine. A call is some dictionary steps; the end of a group is some for each of its streams."""

    after_gap_seconds = 0.0
    """Seconds without any output before `after_gap_at`."""

    def __init__(self) -> None:
        self.last_at = float("-inf")
        """Instant of the last output of any stream."""
        self.after_gap_at = float("-inf")
        """Instant of the last output that came after more than GAP_SECONDS without any."""
        self.group = 0
        self.pause_seconds = LONGEST_PAUSE_SECONDS
        self.events = 0
        """Events of the group, first tokens aside."""
        self.fewest_events = 0
        """Events of that stream of the group that had the fewest, of those that spoke in the group before as well; 0: none did."""
        self.context_tokens = 0.0
        self._arrivals = 0
        self._waiting: dict[Hashable, tuple[int, Prompt]] = {}
        """Streams without output, to the number of their arrival and their prompt."""
        self._unseen: dict[Hashable, tuple[int, Prompt]] = {}
        """Unseen requests that may wait for their prefill, oldest first."""
        self._unseen_running: dict[Hashable, float] = {}
        """Unseen requests that count as decoding, to the tokens of their context."""
        self._streams: dict[Hashable, Stream] = {}
        self._paused = 0
        """Streams that are not read now."""
        self._began_at: float | None = None
        """First output of the group; None before the first one."""
        self._before_at: float | None = None
        """First output of the group before."""
        self._prompts: list[Prompt] = []
        self._answered = 0
        """Requests that were answered and are over."""
        self._uncounted: set[Hashable] = set()
        """Requests inside whose prompt's length was not known, while others may become known."""
        self._unmeasured: set[Hashable] = set()
        """Requests that wait, and whose prompt's length is not known."""
        self._split: set[Hashable] = set()
        """Requests that wait, and whose prompt may be computed in parts: any step may hold one."""
        self._waited = False
        """One of these, or an unseen request, has arrived since the group began."""
        # As they were when the group began, for the step that ended then:
        self._streaming = 0
        self._pure = False
        self._measured = True
        """No prompt of unknown length has waited since the group began."""
        self._then: tuple[int, float, int, Prompt | None, bool] = (0, 0.0, 0, None, True)
        """A step's state at its beginning: sequences, tokens in their contexts, requests that waited, the prompt begun, and whether the
        lengths of all prompts inside are known."""
        self._untold = False
        """An answer that was held back has ended since the last step did."""
        self._held_tokens = 0.0
        """Tokens of such answers that are not in the coverage of a step yet."""
        self._mean_coverage = 1.0
        """Coverage of the last steps; fades."""
        self._ended: list[Step] = []

    def arrived(self, key: Hashable, prompt: Prompt, *, seen: bool, length_known: bool = True) -> None:
        """A request is on its way to the engine. `seen`: its output will be read as it comes. `length_known`: else the tokens
        of `prompt` are only a placeholder.

        The prefill of an unseen one is taken as over when a request that came later gets its first token, because
        schedulers take prompts in order. From then on it counts as decoding.
        """
        self._arrivals += 1
        if not length_known and self._answered < UNCOUNTED_REQUESTS:
            self._uncounted.add(key)
        if prompt.tokens > UNSPLIT_TOKENS or not length_known:
            self._split.add(key)
        if not length_known:
            self._unmeasured.add(key)
            self._measured = False
        self._waited = self._waited or not seen or key in self._split
        waiting = self._waiting if seen else self._unseen
        waiting[key] = self._arrivals, prompt

    def began(self, key: Hashable, at: float, events: int) -> Stream | None:
        """The first output of this request was read. None if the request is not known."""
        self._split.discard(key)
        if self._unmeasured:
            self._unmeasured.discard(key)
        waited = self._waiting.pop(key, None)
        if waited is None and (running_tokens := self._unseen_running.pop(key, None)) is not None:
            stream = self._streams[key] = Stream(self, running_tokens)
            self.last_at = at
            return stream
        if waited is None and (waited := self._unseen.pop(key, None)) is None:
            return None
        if at - self.last_at > self.pause_seconds:
            self._pure = False  # it may be a late output of the step that this ends
            self.end_group(at)
        self.last_at = at
        arrival, prompt = waited
        if self._unseen:
            self._take_unseen(arrival)
        self._prompts.append(prompt)
        context_tokens = prompt.tokens + events
        stream = self._streams[key] = Stream(self, context_tokens)
        self.context_tokens += context_tokens
        return stream

    def answering(self, key: Hashable, *, seen: bool) -> None:
        """The head of the answer shows whether its output will be read as it comes."""
        if seen and key in self._unseen:
            self._waiting[key] = self._unseen.pop(key)
        elif not seen and key in self._waiting:
            self._waited, self._pure = True, False  # its first token may have been made
            self._unseen[key] = self._waiting.pop(key)
            self._unseen = dict(sorted(self._unseen.items(), key=_arrival))
        elif not seen and key in self._streams:
            stream = self._streams.pop(key)
            self._paused -= stream.paused
            self._unseen_running[key] = stream.context_tokens

    def left(self, key: Hashable, *, answered: bool = True) -> None:
        """The request is over. `answered`: the engine had a step for it until now; False: it was refused or given up."""
        if self._uncounted:
            self._uncounted.discard(key)
        stream = self._streams.pop(key, None)
        if stream is not None:
            self._answered += answered
            self._paused -= stream.paused
            self.context_tokens -= stream.context_tokens
            return
        self._split.discard(key)
        if self._unmeasured:
            self._unmeasured.discard(key)
        waited = self._waiting.pop(key, None) or self._unseen.pop(key, None)
        if waited is not None:
            self._answered += answered
            self._waited = True  # the engine may have computed its prompt, or a part of it
            if answered and len(self._prompts) < MOST_PROMPTS:
                self._prompts.append(waited[1])
        elif (running_tokens := self._unseen_running.pop(key, None)) is not None:
            self._answered += answered
            self.context_tokens -= running_tokens

    def held_back(self, tokens: int) -> None:
        """An answer of so many tokens is over that came at once: the steps until now had more to do than it seemed.

        The step that ends next has no length, and so interrupts what they add up to. The tokens count as not covered.
        """
        self._untold = True
        self._held_tokens += tokens

    def paused(self, key: Hashable, *, paused: bool) -> None:
        """The sidecar stops or resumes reading this stream: until its first read after that, it says nothing."""
        stream = self._streams.get(key)
        if stream is None:
            return
        stream.held = paused
        if paused and not stream.paused:
            stream.paused = True
            self._paused += 1

    def late_output(self, stream: Stream, at: float) -> None:
        """A stream that is paused was read: it tells the engine's life, and no step."""
        if at - self.last_at > GAP_SECONDS:
            self.after_gap_at, self.after_gap_seconds = at, at - self.last_at
        self.last_at = at
        if not stream.held:
            stream.paused = False
            self._paused -= 1

    def stream(self, key: Hashable) -> Stream | None:
        """The stream of this request, once it has begun and until it is over."""
        return self._streams.get(key)

    def passed_by(self, key: Hashable) -> float | None:
        """Events that each other stream has had since this one spoke last; None if it is not known or has no other beside
        it. An engine that sends an event every fourth step has a quarter of an event in a step.
        """
        stream = self._streams.get(key)
        if stream is None or len(self._streams) - self._paused < 2:
            return None
        return self._mean_coverage * (self.group - stream.group)

    def forget(self) -> None:
        """The engine was replaced: the time since its last step is no step."""
        self._began_at = self._before_at = None

    def take(self, most: int) -> list[Step]:
        """The oldest steps that have ended and were not taken yet, in order; at most so many."""
        ended, self._ended = self._ended[:most], self._ended[most:]
        return ended

    def end_group(self, at: float) -> None:
        """End the group; the next one begins at `at`."""
        if at - self.last_at > GAP_SECONDS:
            self.after_gap_at, self.after_gap_seconds = at, at - self.last_at
        began_at, before_at = self._began_at, self._before_at
        if began_at is not None and before_at is not None and len(self._ended) < KEPT_ENDED_STEPS:
            self._end_step(began_at, before_at)
        self._before_at, self._began_at = began_at, at
        self.group += 1
        self.events = self.fewest_events = 0
        if self._prompts:
            self._prompts.clear()
        streams, waiting = len(self._streams), len(self._waiting) + len(self._unseen)
        self._streaming = streams - self._paused
        self._pure = not (self._waited or self._split or self._unseen)
        self._waited = False
        self._measured = not self._unmeasured
        begun = self._begun() if waiting else None
        counted = not self._uncounted
        self._then = streams + len(self._unseen_running), self.context_tokens, waiting, begun, counted

    def _end_step(self, began_at: float, before_at: float) -> None:
        """Note the step that ended when the group began."""
        seconds, steps, self.pause_seconds = None, 1, LONGEST_PAUSE_SECONDS
        if self.fewest_events and not self._untold:
            steps = self.fewest_events
            mean = (began_at - before_at) / steps
            self.pause_seconds = min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, PAUSE_SHARE * mean))
            seconds = mean if mean >= SHORTEST_STEP_SECONDS else None
        self._untold = False
        coverage = 1.0
        if self._streaming:
            held = self._held_tokens * min(1.0, steps / STEPS_OF_HELD_TOKENS) if self._held_tokens else 0.0
            self._held_tokens -= held
            coverage = min(1.0, self.events / (steps * self._streaming + held))
        self._mean_coverage += (coverage - self._mean_coverage) * MEAN_WEIGHT
        prompts = tuple(self._prompts)
        pure = self._pure and not prompts
        sequences, tokens, waiting, begun, counted = self._then
        measured = self._measured
        self._ended.append(
            Step(
                began_at, seconds, steps, sequences, tokens, coverage, pure, waiting, prompts, begun, counted, measured
            )
        )

    def _begun(self) -> Prompt | None:
        """The longest of the prompts that have waited longest; of equal ones the first."""
        longest = None
        for waiting in (self._waiting, self._unseen):
            for _, prompt in islice(waiting.values(), LONGEST_WAITING):
                if longest is None or prompt.uncached_tokens > longest.uncached_tokens:
                    longest = prompt
        return longest

    def _take_unseen(self, arrival: int) -> None:
        """Unseen requests that came before this arrival have had their prefill."""
        while self._unseen:
            key = next(iter(self._unseen))
            if self._unseen[key][0] > arrival:
                return
            _, prompt = self._unseen.pop(key)
            self._split.discard(key)
            self._unmeasured.discard(key)
            self._prompts.append(prompt)
            self._unseen_running[key] = prompt.tokens
            self.context_tokens += prompt.tokens


def _arrival(unseen: tuple[Hashable, tuple[int, Prompt]]) -> int:
    return unseen[1][0]
