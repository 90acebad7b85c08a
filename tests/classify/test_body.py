"""One pass over a request body finds the values that classify it, as the engine would read them; no body raises."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.classify.body import peek
from sidecar.classify.found import UNREAD_BODY, Asked, Peek
from tests.fuzz.bodies import in_steps


compact = partial(json.dumps, separators=(",", ":"))
"""As the clients of the engines write it: only of such JSON are the bytes of plain messages exact."""


def seen(**body: object) -> Peek:
    return peek(compact(body).encode(), whole=True)


CHAT = {
    "model": "llama",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "max_tokens": 7,
    "user": "ada",
    "priority": -2,
    "service_tier": "flex",
}


class TestAWholeBody:
    def test_says_what_it_says(self) -> None:
        assert seen(**CHAT) == Peek(
            whole=True,
            model="llama",
            stream=True,
            max_tokens=7,
            user="ada",
            priority=-2,
            service_tier="flex",
            choices=1,
            usage_asked=Asked.ABSENT,
            text_bytes=len(compact(CHAT["messages"])),
            least_text_bytes=len(compact(CHAT["messages"])),
        )

    def test_says_nothing_where_nothing_stands(self) -> None:
        assert peek(b" {} ", whole=True) == Peek(whole=True, choices=1, usage_asked=Asked.ABSENT, text_bytes=0)

    def test_keeps_to_the_last_of_duplicate_keys_as_python_does(self) -> None:
        body = b'{"model":"a","stream":false,"model":"b","str\\u0065am":true}'

        assert (json.loads(body)["model"], json.loads(body)["stream"]) == ("b", True)
        assert (peek(body, whole=True).model, peek(body, whole=True).stream) == ("b", True)
        assert (peek(body[:-1], whole=False).model, peek(body + b" ", whole=False).stream) == ("b", True)

    @pytest.mark.parametrize("odd", [None, 3, "yes", [], {}, 1.5])
    def test_takes_no_odd_type_for_a_value(self, odd: object) -> None:
        found = seen(model=[odd], stream=odd, max_tokens=[odd], user={"a": odd}, priority=str(odd), service_tier=[odd])

        assert found == Peek(whole=True, choices=1, usage_asked=Asked.ABSENT, text_bytes=0)

    def test_takes_no_bool_for_a_number(self) -> None:
        found = seen(max_tokens=True, priority=False, n=True)

        assert (found.max_tokens, found.priority, found.choices) == (None, None, None)

    @pytest.mark.parametrize(
        ("stated", "expected"),
        [
            ({"max_completion_tokens": 5}, 5),
            ({"max_output_tokens": 6}, 6),
            ({"max_tokens": 7, "max_completion_tokens": 5}, 5),
            ({"max_tokens": 7, "max_completion_tokens": None}, 7),
            ({"max_tokens": -1}, None),
        ],
    )
    def test_has_one_bound_on_tokens_by_whichever_name(self, stated: dict[str, object], expected: int | None) -> None:
        assert seen(**stated).max_tokens == expected

    def test_does_not_keep_a_name_that_is_none(self) -> None:
        assert seen(model="x" * 2000, user="x" * 2000) == Peek(
            whole=True, choices=1, usage_asked=Asked.ABSENT, text_bytes=0
        )


class TestChoices:
    @pytest.mark.parametrize(
        ("stated", "expected"),
        [
            ({}, 1),
            ({"n": None}, 1),
            ({"n": 3}, 3),
            ({"n": 0}, None),
            ({"n": "2"}, None),
            ({"prompt": "a"}, 1),
            ({"prompt": ["a"]}, 1),
            ({"prompt": ["a", "b,]"], "n": 2}, 4),
            ({"prompt": [[1, 2], [3], []]}, 3),
            ({"prompt": [1, 2, 3]}, 1),
            ({"prompt": []}, None),
            ({"prompt": None}, 1),
            ({"prompt": {"id": "pmpt_1"}}, 1),
            ({"prompt": [""] * 3_000}, 3_000),
            ({"prompt": ["a prompt" * 8] * 1_200}, 1_200),
        ],
    )
    def test_are_n_times_the_prompts(self, stated: dict[str, object], expected: int | None) -> None:
        assert seen(**stated).choices == expected


class TestUsageAsked:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (None, Asked.NULL),
            ({}, Asked.LEFT_OUT),
            ({"continuous_usage_stats": True}, Asked.LEFT_OUT),
            ({"include_usage": True}, Asked.WANTED),
            ({"include_usage": False}, Asked.DECLINED),
            ({"include_usage": None}, Asked.UNCLEAR),
            ({"include_usage": "true"}, Asked.UNCLEAR),
            ([], Asked.UNCLEAR),
            ("x", Asked.UNCLEAR),
        ],
    )
    def test_is_what_the_client_said(self, options: object, expected: Asked) -> None:
        assert seen(stream_options=options).usage_asked == expected


class TestText:
    def test_is_counted_over_every_api(self) -> None:
        assert seen(prompt="abc").text_bytes == 5
        assert seen(input="abcd", instructions="ef").text_bytes == 10
        assert seen(system="ab", messages=[]).text_bytes == 6
        assert seen(messages=[1], tools=[2]).text_bytes == 6

    @pytest.mark.parametrize("name", ["messages", "prompt", "input", "system", "tools", "text", "text_input", "inputs"])
    def test_is_none_where_a_member_is_null(self, name: str) -> None:
        """Clients that state every member of their API write a null for those that they do not use."""
        stated = {"instructions": "ab", name: None}

        assert seen(**stated).text_bytes == in_steps(compact(stated).encode()).text_bytes == 4

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            {"type": "image", "source": {"type": "base64", "data": "aaaa"}},
            {"type": "input_audio", "input_audio": {"data": "aaaa"}},
            {"type": "text", "text": "data:image/png;base64,aaaa"},
            {"image_url": {"url": "https://x/y.png"}},
        ],
    )
    def test_beside_media_measures_nothing(self, part: dict[str, object]) -> None:
        assert seen(messages=[{"role": "user", "content": [part]}]).text_bytes is None

    def test_that_only_talks_about_media_is_text(self) -> None:
        message = {"role": "user", "content": 'write {"type": "image_url"} for me'}

        assert seen(messages=[message]).text_bytes == len(compact([message]))

    def test_with_letters_that_no_encoder_escapes_measures_nothing(self) -> None:
        """They may hide the name of a medium; other escapes are common, and count as the characters that they are."""
        hidden = b'{"messages":[{"content":[{"ty\\u0070e":"video_url"}]}]}'
        common = b'{"messages":[{"content":"caf\\u00e9 \\u003c \\u007f"}]}'

        assert peek(hidden, whole=True).text_bytes is None
        assert peek(common, whole=True).text_bytes == len(common) - len(b'{"messages":}') - (4 + 5 + 5)

    @pytest.mark.parametrize("held", [{"previous_response_id": "resp_1"}, {"conversation": {"id": "c"}}])
    def test_that_the_server_has_already_is_not_measured(self, held: dict[str, object]) -> None:
        assert seen(input="and then?", **held).text_bytes is None
        assert seen(input="and then?", **dict.fromkeys(held)).text_bytes == len('"and then?"')

    def test_given_as_token_ids_is_counted_exactly(self) -> None:
        assert (seen(prompt=[5, 6, 7]).prompt_tokens, seen(prompt=[5, 6, 7]).text_bytes) == (3, None)
        assert (seen(prompt=[[5, 6], [7]]).prompt_tokens, seen(prompt=[[5, 6], [7]]).text_bytes) == (None, None)
        assert seen(prompt="5, 6, 7").prompt_tokens is None


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


class TestAGrammar:
    @pytest.mark.parametrize(
        "stated",
        [
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
            {"response_format": {"type": "json_object"}},
            {"structured_outputs": {"regex": "a+"}},
            {"guided_choice": ["a", "b"]},
            {"grammar": 'root ::= "a"'},
            {"format": "json"},
            {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            {"parameters": {"grammar": {"type": "regex", "value": "a+"}}},
            {"sampling_params": {"json_schema": "{}"}},
        ],
    )
    def test_is_what_the_engine_prepares_before_the_first_output(self, stated: dict[str, object]) -> None:
        ((_, grammar),) = stated.items()

        assert seen(**stated).grammar_bytes == len(compact(grammar))

    def test_is_made_of_the_tools_that_must_be_called(self) -> None:
        tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
        named = {"type": "function", "function": {"name": "f"}}

        found = [seen(tools=tools, tool_choice=choice).grammar_bytes for choice in ("required", named, "auto", None)]

        assert found == [len(compact(tools)), len(compact(tools)), 0, 0]

    @pytest.mark.parametrize(
        "stated",
        [
            {},
            {"response_format": {"type": "text"}},
            {"response_format": None},
            {"format": ""},
            {"text": {"format": {"type": "text"}}},
            {"text": "a grammar"},
            {"parameters": {"max_new_tokens": 5}},
        ],
    )
    def test_is_none_where_the_answer_is_free(self, stated: dict[str, object]) -> None:
        assert seen(**stated).grammar_bytes == 0


def test_tools_that_the_server_runs_are_told_from_functions() -> None:
    function = {"type": "function", "name": "f", "parameters": SCHEMA}

    assert not seen(tools=[function]).server_tools
    assert seen(tools=[function, {"type": "web_search_preview"}]).server_tools
    assert seen(tools=[{"type": "mcp", "server_url": "x"}]).server_tools


class TestABeginning:
    def test_says_what_ends_within_it(self) -> None:
        body = b'{"model": "llama", "stream" : true,"messages":[{"content":"a]}\\"","x":[1,{}]}],"user":"ada","max_tokens":12'

        assert peek(body, whole=False) == Peek(model="llama", stream=True, user="ada")
        assert peek(body + b"3,", whole=False).max_tokens == 123

    def test_of_a_body_that_is_no_json_is_read_as_far_as_it_goes(self) -> None:
        assert peek(b'{"model":"llama","stream":true,"x":NaN,"user":"ada",', whole=True) == Peek(
            model="llama", stream=True, user="ada"
        )

    def test_ends_at_a_value_that_does_not_end(self) -> None:
        for value in (b'"ll', b'"ll\\', b"[1", b'{"a":"}', b"tru", b"-1", b""):
            assert peek(b'{"stream":true,"model":' + value, whole=False) == Peek(stream=True)

    @pytest.mark.parametrize(
        "body",
        [b"", b" ", b"[", b"null", b'"model"', b"\xff\xfe{", b"{]", b"{,", b'{"model"}', b'{"model":}', b"{\x00"],
    )
    def test_that_is_nothing_says_nothing(self, body: bytes) -> None:
        assert (peek(body, whole=False), peek(body, whole=True)) == (UNREAD_BODY, UNREAD_BODY)

    @pytest.mark.parametrize("bomb", [b'{"a":' * 200_000, b'{"a":' + b"[" * 1_000_000, b'{"a":' + b"[]," * 300_000])
    def test_of_a_nesting_bomb_is_given_up(self, bomb: bytes) -> None:
        assert (peek(bomb, whole=False), peek(bomb, whole=True)) == (UNREAD_BODY, UNREAD_BODY)

    def test_behind_which_numbers_are_huge_says_nothing_of_them(self) -> None:
        huge = b"9" * 100_000

        assert peek(b'{"max_tokens":' + huge + b',"model":"a"}', whole=False) == Peek(model="a")
        assert peek(b'{"max_tokens":' + huge + b',"model":"a"}', whole=True) == Peek(model="a")

    def test_with_characters_that_are_none_says_nothing_of_them(self) -> None:
        assert peek(b'{"user":"\xff","model":"\\ud800","stream":true,', whole=False) == Peek(stream=True)


KEYS = st.sampled_from(
    ["model", "stream", "max_tokens", "n", "prompt", "messages", "stream_options", "user", "priority", "x", "\u00e9"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(body=st.binary(max_size=60), whole=st.booleans())
def test_random_bytes_never_raise(body: bytes, whole: bool) -> None:
    assert peek(body, whole=whole).whole in (whole, False)
    assert peek(b'{"' + body, whole=whole).whole in (whole, False)


@given(said=st.dictionaries(KEYS, VALUES), at=st.integers(0, 400), byte=st.integers(0, 255))
def test_mutated_json_never_raises(said: dict[str, object], at: int, byte: int) -> None:
    raw = json.dumps(said).encode()
    place = at % len(raw)
    mutated = raw[:place] + bytes([byte]) + raw[place + 1 :]

    assert isinstance(peek(mutated, whole=True), Peek)
    assert isinstance(peek(mutated, whole=False), Peek)


@given(said=st.dictionaries(KEYS, VALUES), cut=st.integers(0, 400))
def test_a_beginning_never_contradicts_the_whole(said: dict[str, object], cut: int) -> None:
    """Values in a beginning equal those in the whole body: the bodies have each key once, as a Python dict does."""
    raw = json.dumps(said, allow_nan=False).encode() if _finite(said) else b"{}"
    whole = peek(raw, whole=True)
    part = peek(raw[:cut], whole=False)

    for name in ("model", "stream", "max_tokens", "user", "priority", "service_tier"):
        assert getattr(part, name) in (None, getattr(whole, name))


def _finite(said: object) -> bool:
    try:
        json.dumps(said, allow_nan=False)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("body", "text_bytes", "prompt_tokens"),
    [
        (b'{"text": "why?", "sampling_params": {}}', 6, None),
        (b'{"text": ["why?", "who?"]}', 16, None),
        (b'{"text_input": "why?", "max_tokens": 5}', 6, None),
        (b'{"inputs": "why?", "parameters": {}}', 6, None),
        (b'{"input_ids": [1, 2, 3]}', None, 3),
        (b'{"input": "why?", "text": {"format": {"type": "text"}}}', 6, None),
    ],
)
def test_native_apis_call_their_prompts_by_other_names(
    body: bytes, text_bytes: int | None, prompt_tokens: int | None
) -> None:
    """SGLang, Triton and TGI have other names for the prompt; a Responses request's `text` is no prompt."""
    seen = peek(body, whole=True)

    assert (seen.text_bytes, seen.prompt_tokens) == (text_bytes, prompt_tokens)


@given(
    said=st.fixed_dictionaries(
        {},
        optional={
            "model": st.sampled_from(["m", "x" * 2000, ["m"], None]),
            "stream": st.sampled_from([True, False, "yes"]),
            "max_tokens": st.sampled_from([7, -1, 1 << 70, 1.5]),
            "n": st.sampled_from([1, 3, "n", [1] * 9000, [1]]),
            "stream_options": st.sampled_from([None, {}, {"include_usage": True}, [1], {"a": "b" * 13_000}]),
            "prompt": st.sampled_from(["hi", ["a", "b"], [1, 2, 3], [[1], [2]], "x" * 70_000, []]),
            "messages": st.sampled_from(
                [
                    [{"role": "user", "content": "hi " * 40_000}],
                    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "A" * 70_000}}]}],
                    [{"role": "user", "content": [{"image_url": {"url": "data:;base64," + "A" * 70_000}}]}],
                ]
            ),
            "tools": st.sampled_from([[{"type": "function"}] * 3000, [{"type": "web_search_preview"}]]),
            "tool_choice": st.sampled_from(["auto", "required"]),
            "response_format": st.sampled_from([{"type": "text"}, {"type": "json_schema", "json_schema": {"a": 1}}]),
            "parameters": st.sampled_from([{"grammar": {"a": 1}}, {}]),
            "text": st.sampled_from(["a", {"format": {"regex": "a"}}]),
            "previous_response_id": st.sampled_from([None, "r1"]),
        },
    ),
    escaped=st.booleans(),
    lost=st.sampled_from([0, 0, 1]),
)
def test_read_in_steps_a_body_says_the_same(said: dict[str, object], escaped: bool, lost: int) -> None:
    body = compact(said, ensure_ascii=escaped).encode()
    body = body[: len(body) - lost]

    assert replace(in_steps(body), null_at=None) == peek(body, whole=True)


def test_messages_of_a_body_too_long_to_be_taken_apart_count_as_they_are_written() -> None:
    """Those of a shorter one count as compact JSON: the bytes are for an estimate, which twenty prompts calibrate."""
    messages = [{"role": "user", "content": "hi " * 400_000}]
    body = json.dumps({"messages": messages}).encode()

    assert in_steps(body).text_bytes == len(json.dumps(messages))
    assert peek(body, whole=True).text_bytes == len(compact(messages))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b" " * 4_000 + b'{"model":"m","prompt":"' + b"a" * 40_000 + b'"}', id="behind 4,000 spaces"),
        pytest.param(b'{"max_tokens":' + b"7" * 7_000 + b',"prompt":"hi"}', id="a number of 7,000 digits"),
        pytest.param(b'{"max_tokens":' + b"7" * 13_000 + b',"prompt":"hi"}', id="a number of 13,000 digits"),
        pytest.param(b'{"model":"' + b"\\n" * 13_000 + b'","prompt":"hi"}', id="a name of 13,000 escapes"),
        pytest.param(b'{"n":"' + b"a" * 13_000 + b'","prompt":"hi"}', id="a text in the place of a number"),
        pytest.param(b'{"n":[2],"user":{"a":1},"prompt":"hi"}', id="containers in the place of scalars"),
        pytest.param(b'{"user":[1e999],"n":{"a":1e999},"prompt":"hi"}', id="numbers out of range where none counts"),
        pytest.param(b'{"n":1e999,"n":1,"prompt":"hi"}', id="a number out of range where another counts"),
        pytest.param(b'{"n":1e999,"prompt":"hi"}', id="a number out of range that counts"),
        pytest.param(b'{"stream_options":1e999,"stream_options":null}', id="the last stream_options counts"),
        pytest.param(b'{"model":[[]],"model":"m","prompt":"hi"}', id="the last of duplicates counts"),
        pytest.param(b'{"prompt":' + json.dumps(["hi"] * 9_000).encode() + b"}", id="a batch of 9,000 prompts"),
        pytest.param(b'{"model":"' + b"\xff" * 7_000 + b'","prompt":"hi"}', id="a name that is no UTF-8"),
    ],
)
def test_an_odd_body_says_the_same_in_steps(body: bytes) -> None:
    assert in_steps(body) == peek(body, whole=True)


def test_values_of_odd_types_are_never_built() -> None:
    """330,000 lists in the place of a name would take 45 ms to build, and as long to collect."""
    body = b'{"model":[' + b"[]," * 330_000 + b"[]]}"

    assert in_steps(body) == Peek(whole=True, choices=1, usage_asked=Asked.ABSENT, text_bytes=0)
