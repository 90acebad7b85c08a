"""The admin side answers under its own names and under those of the config, and no name of a web page is among them."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.admin.hosts import ADMIN_SERVICE, Hosts
from sidecar.commands.export.rules.annotations import RUNBOOKS


HOSTS = Hosts("vllm-7d9f-abcde")
ALLOWED = ("sidecar.example.com",)
OURS = (
    *("127.0.0.1", "10.1.2.3", "255.255.255.255", "[::1]", "[fe80::1]", "[::ffff:10.0.0.1]"),
    *("localhost", "a.localhost", "a.b.localhost", "vllm-7d9f-abcde"),
    *(ADMIN_SERVICE, f"{ADMIN_SERVICE}.prod.svc", f"{ADMIN_SERVICE}.prod.svc.cluster.local"),
    *(f"{ADMIN_SERVICE}.other.svc", f"{ADMIN_SERVICE}.other.svc.cluster.local", *ALLOWED),
)
FOREIGN = (
    *(
        "",
        ".",
        ":9901",
        "[]",
        "[localhost]",
        "[127.0.0.1]",
        "::1",
        "fe80::1",
        "[::1",
        "[::1]x",
        "127.0.0.1:9901:1",
        "127.0.0.1:x",
    ),
    *("evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "vllm-7d9f-abcde.evil.com", "xlocalhost", "999.1.1.1"),
    *(
        f"{ADMIN_SERVICE}.dev",
        f"{ADMIN_SERVICE}.prod",
        f"{ADMIN_SERVICE}.prod.evil.com",
        f"{ADMIN_SERVICE}.prod.svc.evil.com",
    ),
    *(f"{ADMIN_SERVICE}.a.b.svc", f"x{ADMIN_SERVICE}.prod.svc", f"{ADMIN_SERVICE}..svc", f"{ADMIN_SERVICE}.svc"),
    *(
        "example.com",
        "a.sidecar.example.com",
        "sidecar.example.com.evil.com",
        "user@localhost",
        "localhost/",
        "localhost\n",
    ),
)


@pytest.mark.parametrize("port", ["", ":9901", ":"])
@pytest.mark.parametrize("written", [str.lower, str.upper, lambda host: host if host.endswith("]") else f"{host}."])
@pytest.mark.parametrize("host", OURS)
def test_own_names_pass_with_any_port_in_any_case_and_with_a_dot(host: str, written: type[str], port: str) -> None:
    assert HOSTS.pass_for(written(host) + port, ALLOWED)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_name_that_others_can_have_does_not_pass(host: str) -> None:
    assert not HOSTS.pass_for(host, ALLOWED)


def test_the_links_of_pages_and_dashboards_pass() -> None:
    assert HOSTS.pass_for(urlsplit(RUNBOOKS).netloc)


NAMES = st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9-]{1,20}){0,3}", fullmatch=True)
ENDS = st.sampled_from(
    (".com", ".dev", ".example.com", ".svc.io", ".localhost.com", ".127.0.0.1.com", ".cluster.local.net")
)


@given(
    NAMES | st.sampled_from(OURS).map(lambda host: host.strip("[]").replace(":", "-")), ENDS, st.sampled_from(("", "."))
)
def test_no_name_of_the_public_dns_passes(begin: str, end: str, dot: str) -> None:
    """Its beginning does not matter."""
    assert not HOSTS.pass_for(begin + end + dot)


@given(
    st.text() | st.sampled_from(OURS + FOREIGN).flatmap(lambda host: st.text(max_size=3).map(lambda end: host + end))
)
def test_what_passes_names_the_host_that_a_browser_reads_out_of_it(text: str) -> None:
    """Python's reader of URLs finds an own name in it, or an address; no text raises."""
    if HOSTS.pass_for(text, ALLOWED):
        found = urlsplit(f"http://{text}").hostname
        assert found is not None
        shown = f"[{found}]" if ":" in found else found
        assert HOSTS.pass_for(shown, ALLOWED)
