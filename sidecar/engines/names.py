"""The names of the models: which label value a requested name has.

A client may ask for any name, so a requested name alone is never a label value. A name becomes one in three ways, from the strongest:

1. The config states it (`engine.models`). Then no other name ever does.
2. The engine's own list has it. Adapters and served aliases are in these lists.
3. An answer states it, and the statement proves that the engine has this model:
   - it is another name than the requested one: the engine chose it itself. One that contains the requested name, or is contained in it, may
     be made from it (a gateway that drops a prefix, or adds a date), and is taken for an echo;
   - or it is an echo, and this engine refuses a name that it does not have: its kind is known for that, or it was seen.
   An engine that takes every name and answers with it proves nothing (SGLang, and TGI for chat).
   At most MOST_ANSWERED names come from answers in a process's life.

A requested name that is no value itself can stand for one: by the engine's own rule (`same_model`: Ollama takes `llama3.2` for
`llama3.2:latest`), or because the last answer to it stated that value. At most MOST_ALIASES such names are remembered, the latest ones.

A request has its label when it begins, and keeps it: what its answer proves holds for the requests after it.

Pure, and it knows names alone: who asks for the list is in `probe/`, and who reads an answer in `sidecar/observe/unknown_model.py`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from sidecar.ledger.request_labels import OTHER


MOST_ANSWERED = 8
"""Half of what the label `model` takes: a list that comes later still finds room."""
MOST_ALIASES = 64
LONGEST_NAME_CHARACTERS = 256
"""As long as a label value may be."""


class ModelNames:
    """The names of one engine's models, and what other names stand for."""

    def __init__(self, stated: Sequence[str] = ()) -> None:
        """`stated`: the closed set where the config states it."""
        self.is_fixed = bool(stated)
        self.listed = tuple(stated)
        """From the config or the engine's own list."""
        self.answered: tuple[str, ...] = ()
        """From its answers, and in no list."""
        self.adapters: frozenset[str] = frozenset()
        """Those of the list that adapt another model, as far as the engine says which they are."""
        self.refuses_unknown = False
        """It refuses a name that it does not have."""
        self._same_model: Callable[[str], str] = str
        self._ever_answered: set[str] = set()
        self._aliases: OrderedDict[str, str] = OrderedDict()
        self._by_form: dict[str, str] = {}
        self._know()

    @property
    def all(self) -> tuple[str, ...]:
        """Every name that is a label value."""
        return (*self.listed, *self.answered)

    def of(self, asked: str | None) -> str:
        """The label value of a requested name, or `other`. A request without a name gets the one that is listed, if only one is."""
        if asked is None:
            return self.listed[0] if len(self.listed) == 1 else OTHER
        return self._by_form.get(asked) or self._named(asked) or self._aliases.get(asked, OTHER)

    def list_is(self, names: Iterable[str], adapters: Iterable[str] = ()) -> bool:
        """The engine listed its models. Returns whether that changed anything; where the config states them, it does not."""
        names, adapters = tuple(names), frozenset(adapters)
        if self.is_fixed or (names, adapters) == (self.listed, self.adapters):
            return False
        self.listed, self.adapters = names, adapters
        self._know()
        return True

    def answered_with(self, asked: str, said: str) -> str | None:
        """A good answer to a request for `asked` stated the model `said`. Returns the name that became a label value now, if one did."""
        if self._named(asked) is not None:
            return None
        name, fresh = self._named(said), None
        if name is None and self._is_proven(asked, said):
            name = fresh = said
            self._ever_answered.add(said)
            self.answered = (*self.answered, said)
            self._know()
        if name is None:
            self._aliases.pop(asked, None)  # it may have stood for another model before
        elif asked != name:
            self._aliases[asked] = name
            self._aliases.move_to_end(asked)
            if len(self._aliases) > MOST_ALIASES:
                self._aliases.popitem(last=False)
        return fresh

    def is_of_kind(self, same_model: Callable[[str], str], *, refuses_unknown: bool) -> None:
        """The engine is another process, or its kind is known. `same_model`: two names of one model give the same text. All that answers proved
        so far is forgotten.
        """
        self._same_model, self.refuses_unknown = same_model, refuses_unknown
        self.answered = ()
        self._know()

    def _named(self, name: str) -> str | None:
        """The label value that is this name, or that this kind of engine takes it for."""
        return self._by_form.get(name) or self._by_form.get(self._same_model(name))

    def _is_proven(self, asked: str, said: str) -> bool:
        room = said in self._ever_answered or len(self._ever_answered) < MOST_ANSWERED
        if self.is_fixed or not room or said == OTHER or not 0 < len(said) <= LONGEST_NAME_CHARACTERS:
            return False
        return self.refuses_unknown or not _may_be_made_from(said, asked)

    def _know(self) -> None:
        listed = {self._same_model(name): name for name in reversed(self.listed)}
        self.answered = tuple(name for name in self.answered if self._same_model(name) not in listed)
        names = self.all
        self._by_form = {
            **listed,
            **{self._same_model(name): name for name in self.answered},
            **dict(zip(names, names, strict=True)),
        }
        for asked in [asked for asked, name in self._aliases.items() if name not in self._by_form]:
            del self._aliases[asked]


def _may_be_made_from(said: str, asked: str) -> bool:
    one, other = ("".join(filter(str.isalnum, name.casefold())) for name in (said, asked))
    return one in other or other in one
