"""Traffic begins with all that a request needs, and without the rest."""

import json
import subprocess
import sys

import pytest

from sidecar.serving import shown


LATE = (
    *("aiohttp", "bcrypt", "grpc", "markdown_it", "prometheus_client", "yarl"),
    *("sidecar.admin.listener", "sidecar.admin.page.page", "sidecar.beside_traffic", "sidecar.diagnosis"),
    *("sidecar.engines.probe.probe", "sidecar.history.ring", "sidecar.otlp"),
)
"""These take half of a start, and no request needs them."""
LOADED = """
import json, sys
import sidecar.app, sidecar.cli
traffic = sorted(sys.modules)
import sidecar.beside_traffic
print(json.dumps([traffic, sorted(sys.modules)]))
"""


def test_traffic_is_loaded_without_what_stands_beside_it() -> None:
    """`serve` loads these modules before its first answer; another import of theirs, by whatever way, would delay it.

    The second half brings the rest, and neither brings a command, which carries no traffic, nor the export of spans, which is
    loaded where the config wants it.
    """
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, check=True)
    traffic, both = map(set, json.loads(done.stdout))

    assert {"sidecar.serving", "sidecar.proxy.relay", "sidecar.observe.request", "uvloop"} <= traffic
    assert [name for name in LATE if name in traffic] == []
    assert {"aiohttp", "sidecar.admin.page.page", "sidecar.diagnosis.tree"} <= both
    assert [name for name in both if name.startswith("sidecar.commands")] == []
    assert {"sidecar.otlp.exporting", "sidecar.otlp.request_spans", "google.protobuf"} & both == set()


@pytest.mark.parametrize(("address", "words"), [(("127.0.0.1", 80), "127.0.0.1:80"), (("::1", 80), "[::1]:80")])
def test_an_address_is_shown_as_it_is_written_in_a_url(address: tuple[str, int], words: str) -> None:
    assert shown(address) == words
