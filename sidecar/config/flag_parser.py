"""The parser of a command line: errors that fit the terminal, flags that nearly exist, and spellings of the release before.

Knows how flags are written, and nothing of what they mean. Which flags several commands share stands in `commands/shared_flags.py`.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from sidecar.config.folding import MISUSED, errors_text
from sidecar.config.suggest import did_you_mean


UP_TO_THE_USER = re.compile(r"^([^@]*?(?:://|=))?.*@", re.DOTALL)
"""A word up to the end of its user and password. It may be no address, so that all before its last @ may be a password."""
_LONGEST_SHOWN = 80


def shown_word(word: str) -> str:
    """A word that was typed, without a user and a password in it."""
    return UP_TO_THE_USER.sub(r"\1", word)


class Parser(argparse.ArgumentParser):
    """A parser whose errors fit the terminal, as its help does, which keeps the lines of its texts and takes no beginning of a flag for it.

    `old`: spelling of an earlier release to the flag of this one. It is taken, and told on the error output. `gone`: flag of an earlier
    release to what replaces it. It is refused with that. `strict`: what is no flag is refused by this parser also where another one
    called it, so that its own flags are suggested.
    """

    def __init__(
        self,
        *,
        old: Mapping[str, str] | None = None,
        gone: Mapping[str, str] | None = None,
        strict: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False, **options})
        self._old, self._gone, self._strict = old or {}, gone or {}, strict

    def error(self, message: str) -> NoReturn:
        self._refuse([f"error: {message}"])

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, rest = self.parse_known_args(args, namespace)
        if rest:
            self._refuse(self.unknown(rest))
        return known

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = [self._of_now(word) for word in (sys.argv[1:] if args is None else args)]
        known, rest = super().parse_known_args(given, namespace)
        if rest and self._strict:
            self._refuse(self.unknown(rest))
        return known, rest

    def unknown(self, words: Sequence[str]) -> list[str]:
        """An error for each word that is no flag, with the nearest flag. The value of one is not repeated: it may be a secret."""
        return [self._unknown(word) for word in words]

    def _unknown(self, word: str) -> str:
        name = word.partition("=")[0]
        if not name.startswith("-"):
            return f"{shown_word(word)[:_LONGEST_SHOWN]!r} is no flag: every flag begins with --"
        if name in self._gone:
            return f"{name}: is gone; {self._gone[name]}"
        flags = [flag.removeprefix("--") for flag in self._option_string_actions if flag.startswith("--")]
        near = did_you_mean(name.lstrip("-"), flags, "--")
        return f"{shown_word(name)[:_LONGEST_SHOWN]}: there is no such flag{near}"

    def _of_now(self, word: str) -> str:
        name, equals, value = word.partition("=")
        new = self._old.get(name)
        if new is None:
            return word
        sys.stderr.write(errors_text([f"{self.prog}: {name} is {new} now; the next release takes only that"]))
        return f"{new}{equals}{value}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise

    def _refuse(self, errors: Sequence[str]) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(MISUSED, errors_text(f"{self.prog}: {error}" for error in errors))
