"""Kube-OVN's own controller, built from a checkout, on the tests' cluster and real databases of OVN.

Kube-OVN cannot be pinned as a Go module of the rig: its `replace` lines hold in its own module alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpupool.kubernetes.manifests.address_policy import ACCOUNTS
from tests.support.cluster.build import Report, cache_folder, find_go, go_version
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.directory import ClusterError
from tests.support.cluster.processes import Program
from tests.support.kube_ovn_networks import CHECKOUT_VARIABLE, find_checkout
from tests.support.operators.running import ANYTHING

NAMESPACE = "kube-system"
PROGRAM = "kube-ovn-controller"
#: Holds `ovn-nb.ovsschema` and `ovn-sb.ovsschema` of OVN 25.03 or later: the controller refuses
#: older databases. ovn-northd 23.03 and its tools work on the newer ones.
SCHEMAS_VARIABLE = "GPUPOOL_OVN_SCHEMAS"
_SCHEMAS = Path(os.environ.get(SCHEMAS_VARIABLE) or "/usr/share/ovn")
#: The least northbound schema that the controller of 1.17.0 takes.
_LEAST_SCHEMA = (7, 11)
#: The controller writes here whatever its options say, and ends where the folder is missing.
_LOGS = Path("/var/log/kube-ovn")
_HOST = "127.0.0.1"


def why_not() -> str:
    """Why it cannot be run here; empty where it can."""
    if find_checkout() is None:
        return f"{CHECKOUT_VARIABLE} names no checkout of github.com/kubeovn/kube-ovn"
    for program in ("ovsdb-server", "ovn-northd", "ovn-nbctl"):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install ovn-central"
    schema = _SCHEMAS / "ovn-nb.ovsschema"
    if not schema.exists() or _read_version(schema) < _LEAST_SCHEMA:
        return (
            f"{schema} is missing or older than 7.11; {SCHEMAS_VARIABLE} names a newer one's folder"
        )
    if os.geteuid() != 0 and not _LOGS.exists():
        return f"{_LOGS} is missing, and only root makes it"
    return (
        ""
        if find_program().exists()
        else f"{PROGRAM} is not built; `make test-operators` builds it"
    )


def find_program() -> Path:
    """Return where the controller of the checkout is, or will be."""
    checkout = find_checkout()
    assert checkout is not None
    content = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        content.update((checkout / name).read_bytes())
    for folder in ("cmd", "pkg"):
        for file in sorted((checkout / folder).rglob("*.go")):
            content.update(file.read_bytes())
    root = cache_folder(go_version(find_go()), ()).parent
    return root / f"kube-ovn-{content.hexdigest()[:16]}" / PROGRAM


def build(report: Report) -> None:
    """Build the controller of the checkout unless it is there: 2 to 8 minutes the first time."""
    checkout = find_checkout()
    if checkout is None or find_program().exists():
        return
    report(f"building {PROGRAM} from {checkout}")
    program = find_program()
    program.parent.mkdir(parents=True, exist_ok=True)
    new = program.with_name(f".{PROGRAM}.new")
    command = [
        find_go(),
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-o",
        str(new),
        "./cmd/controller",
    ]
    environ = {**os.environ, "CGO_ENABLED": "0"}
    made = subprocess.run(
        command, cwd=checkout, env=environ, capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise ClusterError(f"building {PROGRAM} failed with {made.returncode}:\n{made.stderr}")
    new.replace(program)


class Northbound:
    """OVN's northbound database, as its own tools read it; and what its switches would do."""

    def __init__(self, address: str, southbound: str) -> None:
        self._address = address
        self._southbound = southbound

    def trace(self, expression: str, *states: str) -> str:
        """Return where OVN would lead a packet, as its last actions.

        Args:
            states: of its connection, at each look-up of it; left out: a new one.
        """
        command = ["ovn-trace", f"--db={self._southbound}", "--minimal"]
        command += [f"--ct={state}" for state in states or ("new",)]
        command.append(expression)
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
        return done.stdout

    def ask(self, *words: str) -> str:
        command = ["ovn-nbctl", f"--db={self._address}", "--timeout=10", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout

    def list_names(self, table: str) -> set[str]:
        text = self.ask("--bare", "--columns=name", "list", table)
        return {line for line in text.splitlines() if line}


@contextmanager
def running(cluster: Cluster) -> Iterator[Northbound]:
    """The controller works as the account that its chart gives it, on databases of its own."""
    access = cluster.access()
    access.service_account(NAMESPACE, ACCOUNTS[0], ANYTHING)
    config = access.kubeconfig("kube-ovn.kubeconfig", access.token(NAMESPACE, ACCOUNTS[0]))
    place = cluster.directory / "kube-ovn"
    place.mkdir(exist_ok=True)
    is_new = not _LOGS.exists()
    _LOGS.mkdir(exist_ok=True)
    addresses = {
        part: f"tcp:{_HOST}:{cluster.directory.port(f'ovn-{part}')}" for part in ("nb", "sb")
    }
    programs = [
        *(_database(cluster, place, part) for part in addresses),
        _northd(place, addresses),
        _controller(cluster, place, config, addresses),
    ]
    try:
        with cluster.directory.locked():
            for program in programs:
                cluster.processes.run(program)
        yield Northbound(addresses["nb"], addresses["sb"])
    finally:
        for program in reversed(programs):
            cluster.processes.kill(program.name)
        if is_new:
            shutil.rmtree(_LOGS)


def _database(cluster: Cluster, place: Path, part: str) -> Program:
    file = place / f"{part}.db"
    schema = _SCHEMAS / f"ovn-{part}.ovsschema"
    subprocess.run(["ovsdb-tool", "create", file, schema], check=True)
    socket = place / f"{part}.sock"
    command = [
        "ovsdb-server",
        file,
        f"--remote=punix:{socket}",
        f"--remote=ptcp:{cluster.directory.port(f'ovn-{part}')}:{_HOST}",
        f"--unixctl={place / f'{part}.ctl'}",
    ]
    return Program(f"ovn-{part}", command, socket.exists)


def _northd(place: Path, addresses: dict[str, str]) -> Program:
    control = place / "northd.ctl"
    command = [
        "ovn-northd",
        f"--ovnnb-db={addresses['nb']}",
        f"--ovnsb-db={addresses['sb']}",
        f"--unixctl={control}",
    ]
    return Program("ovn-northd", command, control.exists)


def _controller(cluster: Cluster, place: Path, config: Path, addresses: dict[str, str]) -> Program:
    command = [
        find_program(),
        f"--kubeconfig={config}",
        f"--ovn-nb-addr={addresses['nb']}",
        f"--ovn-sb-addr={addresses['sb']}",
        "--default-cidr=10.16.0.0/16",
        "--default-gateway=10.16.0.1",
        "--node-switch-cidr=100.64.0.0/16",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--enable-metrics=false",
        f"--log_file={place / 'controller.log'}",
    ]
    environ = {
        "KUBECONFIG": str(config),
        "KUBERNETES_SERVICE_HOST": _HOST,
        "KUBERNETES_SERVICE_PORT": str(cluster.directory.port("api")),
        "POD_NAME": f"{PROGRAM}-0",
        "POD_NAMESPACE": NAMESPACE,
        "POD_IP": _HOST,
        "POD_IPS": _HOST,
        "KUBE_NODE_NAME": "none",
    }
    northbound = Northbound(addresses["nb"], addresses["sb"])
    return Program(
        PROGRAM,
        command,
        lambda: "ovn-cluster" in northbound.list_names("Logical_Router"),
        environ,
    )


def _read_version(schema: Path) -> tuple[int, ...]:
    done = subprocess.run(
        ["ovsdb-tool", "schema-version", schema], capture_output=True, text=True, check=True
    )
    return tuple(int(number) for number in done.stdout.strip().split("."))
