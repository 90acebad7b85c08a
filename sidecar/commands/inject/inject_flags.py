"""The flags of `sidecar inject`, `sidecar uninject` and `sidecar bypass`, with the help that teaches them."""

import argparse

from sidecar.commands.inject.attaching import ASKED
from sidecar.commands.inject.engine_in_pod import HOOKS
from sidecar.commands.inject.pod_with_sidecar import IMAGE
from sidecar.config.flag_parser import Parser
from sidecar.config.folding import width


_INJECT = f"""\
Read Kubernetes manifests, put the sidecar into each workload that asks for it,
lead its Services and InferencePools to it, and write all manifests again: what
is not asked for comes out byte by byte as it went in. A workload asks by its
label or annotation {ASKED}: "true"; --selector and
--all ask for it. "false" keeps it out.

What cannot be attached whole is refused, with what to do, and nothing is
written then.
"""
_INJECT_ENDS = """\
examples, with the image's name in $IMAGE:
  sidecar inject --image=$IMAGE vllm.yaml | kubectl apply -f -
      Attach what asks for it in the file. The pods of these workloads are made
      anew, once.
  helm template vllm ./chart | sidecar inject --image=$IMAGE --all --diff
      See what would change.
  sidecar inject --image=$IMAGE --kustomize vllm.yaml > s/kustomization.yaml
      For a kustomization with the lines `resources: [vllm.yaml]` and
      `components: [s]`.
  sidecar inject --image=$IMAGE vllm.yaml > attached.yaml
      Keep it: it is what the two commands below read.
  sidecar uninject attached.yaml
      Take it out again.
  sidecar bypass attached.yaml
      In an incident: print the commands that lead traffic past the sidecar.

exit codes: 0 written; 1 a file cannot be read; 2 a wrong flag, no manifest, or
a workload that cannot be attached.
"""
_UNINJECT_ENDS = """\
exit codes: 0 written; 1 a file cannot be read; 2 a wrong flag, no manifest, or
something that was changed after `sidecar inject`.
"""
_BYPASS_ENDS = """\
exit codes: 0 printed; 1 a file cannot be read; 2 a wrong flag, no manifest, or
none of the workloads has a sidecar that traffic can pass by.
"""
_UNINJECT = """\
Read manifests that `sidecar inject` has written, and write what it was given:
equal to Kubernetes, and nothing else is touched.
"""
_BYPASS = """\
Read manifests that `sidecar inject` has written, and print the commands that
lead every Service and InferencePool to the engines' own ports. No pod template
changes, so no engine restarts: new requests go past the sidecar at once, and
streams that run through it end whole. `--back` prints the commands that lead
traffic through it again.
"""


def inject_parser() -> argparse.ArgumentParser:
    """The flags of `sidecar inject`."""
    parser = _parser("sidecar inject", _INJECT, _INJECT_ENDS)
    _files(parser)
    chosen = parser.add_argument_group("which workloads")
    chosen.add_argument(
        "--all", action="store_true", help="every workload in which an engine is known, but Helm's hooks"
    )
    chosen.add_argument(
        "--selector", default="", metavar="LABELS", help="those of them with these labels, such as app=vllm,tier=gpu"
    )
    chosen.add_argument(
        "--pod-spec-path",
        action="append",
        default=[],
        metavar="KIND=PATH",
        help="where a kind that is not known has its pod's spec, such as ModelServer=spec.template.spec; may be repeated",
    )
    engine = parser.add_argument_group("the engine, where the manifest does not say it")
    engine.add_argument("--engine-container", default="", metavar="NAME", help="the container that serves")
    engine.add_argument("--engine-port", type=int, metavar="PORT", help="the port on which it listens")
    engine.add_argument(
        "--hook",
        choices=sorted(HOOKS),
        default="",
        help="the tool in the engine's image that asks for the drain before it stops (default: what the engine's own image has)",
    )
    pods = parser.add_argument_group("the sidecar")
    pods.add_argument(
        "--image",
        default=IMAGE,
        metavar="IMAGE",
        help=f"its image, as your cluster pulls it ({f'default {IMAGE}' if IMAGE else 'required'})",
    )
    pods.add_argument(
        "--config-map", default="", metavar="NAME", help="a ConfigMap with sidecar.yml (default: none is needed)"
    )
    for name, takes in (("cpu", "CPUs"), ("memory", "memory, as its limit too unless one is given,")):
        told = f'{takes} that it asks for (default: see docs/inject.md, "What a pod gets")'
        pods.add_argument(f"--{name}", default="", metavar="REQUEST[:LIMIT]", help=told)
    pods.add_argument("--plain", action="store_true", help="a container beside the engine, for Kubernetes before 1.29")
    pods.add_argument(
        "--no-service",
        action="store_true",
        help="what leads traffic stands elsewhere, and will lead to port 8900 when all pods are new",
    )
    scraper = "a label of what scrapes, or of its namespace, by which a NetworkPolicy admits it; may be repeated"
    pods.add_argument("--scraper", action="append", default=[], metavar="NAME=VALUE", help=scraper)
    mesh = "a mesh's own port, such as 15008 or 4143, that what scrapes may reach too: it carries every port; may be repeated"
    pods.add_argument("--mesh-port", action="append", default=[], type=int, metavar="PORT", help=mesh)
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--diff", action="store_true", help="print what would change, and nothing else")
    printed.add_argument(
        "--kustomize",
        action="store_true",
        help="print a Kustomize component that makes the same changes to the same manifests, or refuses",
    )
    _out(printed)
    return parser


def uninject_parser() -> argparse.ArgumentParser:
    """The flags of `sidecar uninject`."""
    parser = _parser(
        "sidecar uninject",
        _UNINJECT,
        _UNINJECT_ENDS,
    )
    _files(parser)
    parser.add_argument(
        "--no-service",
        action="store_true",
        help="what led to port 8900 stands elsewhere, and leads to the engine again",
    )
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--diff", action="store_true", help="print what would change, and nothing else")
    _out(printed)
    return parser


def bypass_parser() -> argparse.ArgumentParser:
    """The flags of `sidecar bypass`."""
    parser = _parser(
        "sidecar bypass",
        _BYPASS,
        _BYPASS_ENDS,
    )
    _files(parser)
    parser.add_argument("--back", action="store_true", help="through the sidecar again")
    return parser


def _out(printed: argparse._MutuallyExclusiveGroup) -> None:
    printed.add_argument(
        "--out",
        default="",
        metavar="DIR",
        help="write into this folder, in steps where what leads traffic must not change at once, with apply.sh, flux.yaml and Argo CD's waves",
    )


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="manifests, YAML or JSON; -, or no file: the standard input"
    )


def _parser(name: str, about: str, ends: str) -> argparse.ArgumentParser:
    return Parser(
        prog=name,
        description=about,
        epilog=ends,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width()),
    )
