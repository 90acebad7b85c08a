"""The engine's API key, with which the sidecar itself asks for the models. It is in no log, no page and no error."""

import os
import stat
from collections.abc import Callable


MOST_KEY_BYTES = 4096
NO_KEY = "it holds no key that a header can carry"


class EngineApiKey:
    """The key as the config states it, or as its file holds it now: a Secret that is rotated needs no restart."""

    def __init__(self, key: str, file: str, unreadable: Callable[[str], None]) -> None:
        """`key`, `file`: `engine.api_key` and `engine.api_key_file`; "" for none. `unreadable`: told why, once until it is readable."""
        self._key = key
        self._file = file
        self._unreadable = unreadable
        self._told = False

    def read(self) -> str:
        """The key; "" if there is none, or if its file cannot be read or holds none."""
        if not self._file:
            return self._key
        key, why = _in_file(self._file)
        if why and not self._told:
            self._unreadable(why)
        self._told = bool(why)
        return key


def _in_file(file: str) -> tuple[str, str]:
    """The key in this file, else the reason why there is none."""
    try:
        # A pipe in the place of a file must not hold up its reader.
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                return "", "it is no regular file"
            text = os.read(opened, MOST_KEY_BYTES).strip().decode("ascii", "replace")
        finally:
            os.close(opened)
    except OSError as error:
        return "", error.strerror or "it cannot be read"
    readable = bool(text) and all("!" <= sign <= "~" for sign in text)
    return (text, "") if readable else ("", NO_KEY)
