"""The proxies of `make bench-full` that `make bench` leaves out: HAProxy, Envoy, sglang-router and LiteLLM.

As in `proxies.py`, each is a context manager that gives a running proxy, with one thread where the proxy lets itself be told,
and with the settings that relay a stream at once. The Python packages live in environments of their own: their
requirements contradict each other.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.build import environment
from bench.peers.proxies import Running, distribution_version, installed, router, started, stated_version
from tests.support.ports import free_port


HAPROXY_CONFIG = """\
global
  nbthread 1
  maxconn 9000
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend clients
  bind 127.0.0.1:{port}
  default_backend engine
backend engine
  server engine 127.0.0.1:{engine}
"""
MODELS = ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct")


def envoy_config(port: int, engine_port: int) -> str:
    """A listener with the router filter alone, and no time limit on a stream."""

    def address(number: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    kinds = "type.googleapis.com/envoy.extensions.filters"
    manager = {
        "@type": f"{kinds}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "stream_idle_timeout": "0s",
        "http_filters": [
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{kinds}.http.router.v3.Router"}}
        ],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "engine",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "engine", "timeout": "0s"}}],
                }
            ]
        },
    }
    most = {"max_connections": 20000, "max_requests": 20000, "max_pending_requests": 20000}
    cluster = {
        "name": "engine",
        "connect_timeout": "5s",
        "type": "STATIC",
        "circuit_breakers": {"thresholds": [most]},
        "load_assignment": {
            "cluster_name": "engine",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(engine_port)}}]}],
        },
    }
    listener = {
        "address": address(port),
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }
    return json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}})


@contextmanager
def haproxy(engine_port: int, folder: Path) -> Iterator[Running]:
    """One thread; HAProxy never buffers an answer."""
    program = installed("haproxy", "haproxy")
    port = free_port()
    config = folder / "haproxy.cfg"
    config.write_text(HAPROXY_CONFIG.format(port=port, engine=engine_port))
    with started([program, "-db", "-f", str(config)], port, folder / "haproxy.log") as own:
        yield Running(port, own.pid, stated_version([program, "-v"]), start_seconds=own.seconds)


@contextmanager
def envoy(engine_port: int, folder: Path) -> Iterator[Running]:
    """One worker thread."""
    program = str(environment("requirements-full.txt", "venv-full") / "envoy")
    port = free_port()
    config = folder / "envoy.json"
    config.write_text(envoy_config(port, engine_port))
    command = [program, "-c", str(config), "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"]
    with started(command, port, folder / "envoy.log") as own:
        yield Running(port, own.pid, stated_version([program, "--version"]), start_seconds=own.seconds)


@contextmanager
def sglang_router(engine_port: int, folder: Path) -> Iterator[Running]:
    """The sister of vllm-router."""
    bin_folder = environment("requirements-full.txt", "venv-full")
    with router(bin_folder, ("sglang-router", "launch"), engine_port, folder) as running:
        yield running


@contextmanager
def litellm(engine_port: int, folder: Path) -> Iterator[Running]:
    """One worker, no database, no key: the least that it can do. It writes each event anew."""
    bin_folder = environment("requirements-litellm.txt", "venv-litellm")
    port = free_port()
    base = f"http://127.0.0.1:{engine_port}/v1"
    models = [
        {"model_name": name, "litellm_params": {"model": f"hosted_vllm/{name}", "api_base": base, "api_key": "none"}}
        for name in MODELS
    ]
    config = folder / "litellm.yml"
    config.write_text(json.dumps({"model_list": models, "litellm_settings": {"disable_hf_tokenizer_download": True}}))
    command = [str(bin_folder / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--num_workers", "1", "--telemetry", "False"]
    quiet = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    quiet["HF_HUB_OFFLINE"] = "1"  # or it fetches a tokenizer at the first request
    quiet["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"
    with started(command, port, folder / "litellm.log", environ=quiet) as own:
        yield Running(port, own.pid, distribution_version(bin_folder, "litellm"), start_seconds=own.seconds)
