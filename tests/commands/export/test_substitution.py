"""A substitution changes every match of every file, and one that finds nothing is an error."""

import pytest

from sidecar.commands.export.substitution import Substitution, UnmatchedError, same, substituted


def test_every_match_of_every_file_is_changed() -> None:
    texts = {"a": "x: one, one\n", "b": "one\n", "c": "two\n"}

    assert substituted(texts, [same("--x", "one", "1")]) == {"a": "x: 1, 1\n", "b": "1\n", "c": "two\n"}


def test_two_words_may_be_exchanged() -> None:
    other = {"page": "ticket", "ticket": "page"}

    assert substituted({"a": "page ticket"}, [Substitution("--x", "page|ticket", lambda match: other[match[0]])]) == {
        "a": "ticket page"
    }


def test_the_beginning_of_a_longer_word_is_no_match() -> None:
    assert substituted({"a": "one oneself"}, [same("--x", "one", "1")]) == {"a": "1 oneself"}


def test_new_text_is_taken_as_it_is() -> None:
    """A backslash or a `\\1` in it is no reference to a group."""
    assert substituted({"a": "one"}, [same("--x", "one", r"\1\n")]) == {"a": r"\1\n"}


def test_one_that_finds_nothing_is_an_error_that_names_it() -> None:
    """Else a file that was rewritten would be exported unchanged, in silence, whatever the parameter."""
    with pytest.raises(UnmatchedError, match=r"--release: no file of a, b has"):
        substituted({"b": "", "a": "two"}, [same("--two", "two", "2"), same("--release", "one", "one")])
