"""The command line of the parts that run in a cluster, one function for each part."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.node import kubelet
from gpupool.kubernetes.node.audit import REACTIONS

if TYPE_CHECKING:
    # The class is private to argparse, and has no other name.
    _Parts = argparse._SubParsersAction[argparse.ArgumentParser]


def build_parser(description: str) -> argparse.ArgumentParser:
    """Return the parser of all parts. `description` is printed by --help."""
    parser = argparse.ArgumentParser(prog="python -m gpupool.kubernetes", description=description)
    parser.add_argument(
        "--kubeconfig", type=Path, help="default: KUBECONFIG, else the pod's service account"
    )
    parser.add_argument(
        "--namespace", default=install.NAMESPACE, help="where gpupool's own objects are"
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    parts = parser.add_subparsers(dest="part", required=True)
    _add_controller(parts)
    _add_webhook(parts)
    _add_agent(parts)
    _add_meter(parts)
    _add_install(parts)
    return parser


def _add_controller(parts: _Parts) -> None:
    controller = parts.add_parser("controller", help="places pods")
    controller.add_argument(
        "--listen", default="127.0.0.1:0", help="address of /healthz and /metrics"
    )
    controller.add_argument(
        "--alone", action="store_true", help="lead without asking: there is no other replica"
    )
    controller.add_argument(
        "--metered", action="store_true", help="keep what was held until the meter has told it"
    )
    _add_kube_ovn(controller)
    _add_settings(controller)


def _add_kube_ovn(part: argparse.ArgumentParser) -> None:
    part.add_argument(
        "--kube-ovn-namespace",
        metavar="NAMESPACE",
        help="where Kube-OVN runs, e.g. kube-system; without it Tenants get no networks",
    )


def _add_webhook(parts: _Parts) -> None:
    webhook = parts.add_parser("webhook", help="admits pods that ask for cards")
    webhook.add_argument(
        "--listen", default="127.0.0.1:9443", help="address for the API server, TLS"
    )
    _add_settings(webhook)


def _add_settings(part: argparse.ArgumentParser) -> None:
    part.add_argument(
        "--settings",
        metavar="JSON",
        default="",
        help="what holds where the PoolSettings object says nothing, by its fields",
    )


def _add_agent(parts: _Parts) -> None:
    agent = parts.add_parser("agent", help="makes the cards of its node ready")
    agent.add_argument("--node", default="", help="default: NODE_NAME, else this machine's name")
    agent.add_argument(
        "--sim", metavar="SPEC", help="simulated cards, as `gpupool up --sim` takes them"
    )
    agent.add_argument("--state-dir", type=Path, default=Path("/var/lib/gpupool/agent"))
    agent.add_argument(
        "--socket", type=Path, default=Path("/run/gpupool/agent.sock"), help="where the plugin asks"
    )
    agent.add_argument(
        "--cdi", type=Path, default=Path("/var/run/cdi"), help="where the runtime reads CDI files"
    )
    agent.add_argument(
        "--kubelet", type=Path, default=kubelet.ROOT, help="the kubelet's --root-dir"
    )
    agent.add_argument(
        "--plugins",
        type=Path,
        default=kubelet.PLUGINS,
        help="the kubelet's folder of device plugins",
    )
    agent.add_argument("--listen", default="127.0.0.1:0", help="address of /healthz and /metrics")
    agent.add_argument(
        "--dcgm-names",
        action="store_true",
        help="tell what containers use by the names of DCGM's exporter too; not where that one runs as well",
    )
    agent.add_argument(
        "--host", type=Path, default=Path("/"), help="where the host's root is seen from here"
    )
    agent.add_argument(
        "--driver-root",
        type=Path,
        default=Path("/"),
        help="where the driver's files are on the host, absolute",
    )
    agent.add_argument(
        "--fence-reaction",
        choices=REACTIONS,
        default="kill",
        help="when a container has more than its share (default: kill)",
    )
    agent.add_argument("--slots", type=int, default=512, help="as many as the plugin hands out")


def _add_meter(parts: _Parts) -> None:
    meter = parts.add_parser("meter", help="tells a gpupool server what is held")
    meter.add_argument("--server", metavar="URL", required=True, help="of the gpupool server")
    meter.add_argument(
        "--token-file", type=Path, help="holds a token of a user with the role meter"
    )
    meter.add_argument("--ca-file", help="of who has signed the server's certificate")


def _add_install(parts: _Parts) -> None:
    prints = parts.add_parser("install", help="prints what has to be in the cluster before")
    prints.add_argument(
        "--native-policy",
        action="store_true",
        help="and what admits plain native pods inside the API server; needs Kubernetes 1.36",
    )
    _add_kube_ovn(prints)
