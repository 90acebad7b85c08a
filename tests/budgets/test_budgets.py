"""Every limit is derived from the memory and the files of the process, and none promises what they cannot keep."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.budgets.budgets import (
    CONNECTION_BYTES,
    KEPT_FILES,
    LEAST_FILES,
    LEAST_MEMORY_BYTES,
    PROCESS_BYTES,
    REQUEST_BYTES,
    Budgets,
    Kind,
    backlog_of,
    limits_of,
)
from sidecar.config.proxy_section import ProxyConfig


def test_the_shipped_pod_has_these_limits() -> None:
    """1 GiB of memory, more files than are needed, and the config's defaults."""
    assert limits_of(1 << 30, 1 << 20, ProxyConfig()) == {
        Kind.HELD_BYTES: 128 << 20,
        Kind.FILES: (1 << 20) - KEPT_FILES,
        Kind.CONNECTIONS: 8192,
        Kind.UPLOADS: 1024,
        Kind.REQUESTS: 1024,
        Kind.LEDGERS: 4096,
        Kind.SPANS: 34,
        Kind.ACCOUNTS: 16 << 20,
        Kind.TUNNELS: 256,
    }


ANY = st.integers(0, 100_000)
ASKED = st.builds(
    ProxyConfig, max_connections=ANY, max_uploads=ANY, max_tunnels=ANY, max_in_flight=st.integers(1, 100_000)
)


MUCH_MEMORY = st.integers(LEAST_MEMORY_BYTES, 1 << 42) | st.integers(LEAST_MEMORY_BYTES, 2 * LEAST_MEMORY_BYTES)
MEMORY = st.integers(1 << 20, LEAST_MEMORY_BYTES) | MUCH_MEMORY
FILES = st.integers(LEAST_FILES, 1 << 20) | st.integers(LEAST_FILES, 4 * LEAST_FILES)


@given(MEMORY, FILES, ASKED)
def test_all_sockets_at_their_limits_leave_the_kept_files(memory: int, files: int, asked: ProxyConfig) -> None:
    """Each request, upload and tunnel has a connection to the engine beside its client's; one turn accepts a backlog."""
    limits = limits_of(memory, files, asked)
    kinds = (Kind.CONNECTIONS, Kind.REQUESTS, Kind.UPLOADS, Kind.TUNNELS)
    sockets = sum(limits[kind] for kind in kinds) + backlog_of(limits[Kind.FILES])

    assert sockets + KEPT_FILES <= files
    assert limits[Kind.REQUESTS] <= asked.max_in_flight
    assert min(limits.values()) >= 1


@given(MUCH_MEMORY, FILES, ASKED)
def test_all_that_the_limits_allow_fits_into_the_memory(memory: int, files: int, asked: ProxyConfig) -> None:
    limits = limits_of(memory, files, asked)
    each = ((Kind.CONNECTIONS, CONNECTION_BYTES), (Kind.REQUESTS, REQUEST_BYTES))
    allowed = sum(limits[kind] * size for kind, size in each) + limits[Kind.HELD_BYTES] + limits[Kind.ACCOUNTS]

    assert PROCESS_BYTES + allowed <= memory


def test_a_limit_that_is_stated_is_kept_where_the_machine_allows_it() -> None:
    """On a large machine the config decides."""
    asked = ProxyConfig(max_in_flight=5000, max_connections=30_000, max_uploads=700, max_tunnels=50)
    limits = limits_of(64 << 30, 1 << 20, asked)

    kinds = (Kind.REQUESTS, Kind.CONNECTIONS, Kind.UPLOADS, Kind.TUNNELS)
    assert [limits[kind] for kind in kinds] == [5000, 30_000, 700, 50]


def test_a_reload_moves_the_limits_and_keeps_what_is_used() -> None:
    budgets = Budgets(limits_of(1 << 30, 4096, ProxyConfig()))
    budgets.requests.used, budgets.requests.exceeded = 9, 3

    budgets.apply(limits_of(1 << 30, 4096, ProxyConfig(max_in_flight=5)))

    assert repr(budgets.requests) == "<Budget requests: 9 of 5, 3 beyond>"
    assert budgets[Kind.REQUESTS] is budgets.requests
    assert [budget.kind for budget in budgets.rows()] == list(Kind)


def test_names_of_budgets_are_all_different() -> None:
    """`Kind` is an Enum: two equal values would be one member."""
    assert len({kind.label for kind in Kind}) == len(list(Kind)) == 9
