"""The table of `make profile`: shares of looks, by a function itself and with all that it calls."""

from bench.profile import shares


def test_a_function_has_the_looks_at_its_own_lines_and_those_at_what_it_calls() -> None:
    stacks = ["main (a.py:1);read (b.py:7) 3", "main (a.py:1);read (b.py:9);parse (c.py:2) 5", "main (a.py:4) 2"]

    assert shares(stacks) == [
        ("parse (c.py)", 0.5, 0.5),
        ("read (b.py)", 0.3, 0.8),
        ("main (a.py)", 0.2, 1.0),
    ]


def test_a_function_that_calls_itself_is_counted_once_in_each_look() -> None:
    assert shares(["walk (a.py:1);walk (a.py:1) 4"]) == [("walk (a.py)", 1.0, 1.0)]
