"""The rig by hand: build, up, nodes, status, down."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.support.cluster.build import build
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control import CONTROL_PLANE, Settings
from tests.support.cluster.directory import ClusterError
from tests.support.cluster.machine import ADDRESS

DEFAULT_DIRECTORY = Path(tempfile.gettempdir()) / f"gpupool-cluster-{os.geteuid()}"


def main() -> int:
    arguments = parser().parse_args()
    try:
        return int(arguments.run(arguments))
    except ClusterError as refusal:
        print(f"cluster: {refusal}", file=sys.stderr)
        return 1


def _build(arguments: argparse.Namespace) -> int:
    print(build(_say))
    return 0


def _up(arguments: argparse.Namespace) -> int:
    cluster = Cluster(arguments.dir, build(_say), settings_of(arguments))
    say = _timed()
    cluster.up(say)
    if arguments.real_node:
        cluster.add_real_node(say)
    _add_nodes(cluster, arguments)
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    if arguments.for_pods:
        port = cluster.directory.port("api")
        _say(
            f"for the chart: --set apiServer.host={ADDRESS},apiServer.port={port} (there are no Services)"
        )
    print(f"stop it with: {_down_command(arguments.dir)}", file=sys.stderr)
    return 0


def settings_of(arguments: argparse.Namespace) -> Settings:
    """What the control plane is started with."""
    return Settings(arguments.node_grace, arguments.feature_gates, for_pods=arguments.for_pods)


def _nodes(arguments: argparse.Namespace) -> int:
    _add_nodes(Cluster(arguments.dir), arguments)
    return 0


def _add_nodes(cluster: Cluster, arguments: argparse.Namespace) -> None:
    if arguments.nodes:
        began = time.monotonic()
        resources = dict(word.split("=", 1) for word in arguments.resource)
        names = cluster.simulate_nodes(arguments.nodes, resources)
        _say(f"{len(names)} simulated nodes: {time.monotonic() - began:.1f} s")


def _status(arguments: argparse.Namespace) -> int:
    running = Cluster(arguments.dir).processes.running()
    for name, pid in running.items():
        print(f"{name:26} pid {pid:7} {_resident_mib(pid):5} MiB")
    missing = [name for name in CONTROL_PLANE if name not in running]
    if missing:
        _say(f"not running: {', '.join(missing)}")
    return len(missing) and 1


def _down(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    Cluster(arguments.dir).down()
    _say(f"down: {time.monotonic() - began:.1f} s")
    return 0


def _guard(arguments: argparse.Namespace) -> int:
    """Wait until whoever holds the other end of the input is gone."""
    sys.stdin.buffer.read()
    Cluster(arguments.dir).down()
    return 0


def _resident_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) >> 10


def _down_command(directory: Path) -> str:
    if directory == DEFAULT_DIRECTORY:
        return "make cluster-down"
    return f"python -m tests.support.cluster down --dir {directory}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _timed() -> "Timed":
    return Timed(time.monotonic())


class Timed:
    """Says each step with the seconds since the first."""

    def __init__(self, began: float) -> None:
        self._began = began

    def __call__(self, line: str) -> None:
        _say(f"{time.monotonic() - self._began:5.1f} s  {line}")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.support.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("build", help="build the programs; prints their folder").set_defaults(
        run=_build
    )
    up = commands.add_parser("up", help="build, start, wait until ready; may be repeated")
    up.set_defaults(run=_up)
    up.add_argument(
        "--real-node", action="store_true", help="with a kubelet and containerd, as root"
    )
    up.add_argument(
        "--node-grace",
        default=Settings.node_grace,
        metavar="TIME",
        help="a silent node is Ready this long",
    )
    up.add_argument("--feature-gates", default="", metavar="NAME=true,…")
    up.add_argument(
        "--for-pods",
        action="store_true",
        help="pods reach the API server, and it their webhooks: for the Helm chart",
    )
    nodes = commands.add_parser("nodes", help="simulated nodes, up to this number")
    nodes.set_defaults(run=_nodes)
    for command in (up, nodes):
        command.add_argument(
            "--nodes",
            type=int,
            default=0,
            metavar="N",
            help="how many simulated nodes there shall be",
        )
        command.add_argument(
            "--resource",
            action="append",
            default=[],
            metavar="NAME=N",
            help="what each of them has",
        )
    commands.add_parser("status", help="the processes and their memory").set_defaults(run=_status)
    commands.add_parser("down", help="end everything, leave nothing; may be repeated").set_defaults(
        run=_down
    )
    commands.add_parser("guard", help="down, when the standard input ends").set_defaults(run=_guard)
    for command in commands.choices.values():
        command.add_argument(
            "--dir", type=Path, default=DEFAULT_DIRECTORY, help="the rig's folder (%(default)s)"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
