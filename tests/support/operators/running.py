"""The controllers of others as processes of the rig, each with an account that may do anything, as
none of ours may."""

from __future__ import annotations

import base64
import json
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.cluster.api import is_healthy
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.processes import Program
from tests.support.operators.programs import LWS, MPI, RAY, Operator

NAMESPACE = "operators"
ANYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
HOST = "127.0.0.1"
OWN_PODS = {"matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]}
MPI_HEALTH_PORT = 8080
"""The operator's own constant: no other program of this machine may listen there."""

Json = dict[str, Any]


@contextmanager
def running(cluster: Cluster, operator: Operator) -> Iterator[None]:
    """The controller works, on the definitions that it comes with; at the end it and its webhooks
    are gone."""
    admin = cluster.admin()
    definitions = [one for one in operator.objects() if one["kind"] == "CustomResourceDefinition"]
    for made in definitions:
        admin.apply(_path_of(made), made)
    for made in definitions:
        admin.until(_path_of(made), _established)
    cluster.access().service_account(NAMESPACE, operator.name, ANYTHING)
    access = cluster.access()
    config = access.kubeconfig(
        f"{operator.name}.kubeconfig", access.token(NAMESPACE, operator.name)
    )
    with cluster.directory.locked():
        program = _PROGRAMS[operator.name](cluster, operator, config)
        cluster.processes.run(program)
    hooks = [
        _hook(cluster, made)
        for made in operator.objects()
        if made["kind"].endswith("WebhookConfiguration")
    ]
    for made in hooks:
        admin.apply(_path_of(made), made)
    try:
        yield
    finally:
        for made in hooks:
            admin.delete(_path_of(made))
        cluster.processes.kill(operator.name)
        admin.close()


def _established(found: Json) -> bool:
    conditions = found.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _lws(cluster: Cluster, operator: Operator, config: Path) -> Program:
    """Its defaults and labels come from its own webhooks, so they are called as in a cluster, at
    this address."""
    health, place = _port(cluster, "lws-health"), cluster.directory / "lws"
    pair = cluster.authority.issue("lws", "lws", names=[HOST])
    place.mkdir(exist_ok=True)
    shutil.copyfile(pair.certificate, place / "tls.crt")
    shutil.copyfile(pair.key, place / "tls.key")
    said = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": HOST, "port": _port(cluster, "lws-webhook"), "certDir": str(place)},
        "health": {"healthProbeBindAddress": f"{HOST}:{health}"},
        "metrics": {"bindAddress": "0"},
    }
    (place / "config.json").write_text(json.dumps(said))
    command = [operator.program, f"--config={place / 'config.json'}", f"--kubeconfig={config}"]
    webhook, healthy = _port(cluster, "lws-webhook"), _healthy(health)
    return Program(operator.name, command, lambda: healthy() and _listens(webhook))


def _mpi(cluster: Cluster, operator: Operator, config: Path) -> Program:
    command = [
        operator.program,
        f"--kubeConfig={config}",
        f"--lock-namespace={NAMESPACE}",
        "--kube-api-qps=100",
    ]
    return Program(operator.name, command, _healthy(MPI_HEALTH_PORT))


def _ray(cluster: Cluster, operator: Operator, config: Path) -> Program:
    port = _port(cluster, "ray-health")
    command = [
        operator.program,
        f"--kubeconfig={config}",
        "--enable-leader-election=false",
        "--metrics-addr=0",
    ]
    return Program(
        operator.name, [*command, f"--health-probe-bind-address={HOST}:{port}"], _healthy(port)
    )


_PROGRAMS: Mapping[str, Callable[[Cluster, Operator, Path], Program]] = {
    LWS.name: _lws,
    MPI.name: _mpi,
    RAY.name: _ray,
}


def _hook(cluster: Cluster, made: Json) -> Json:
    """As its kustomization makes it: under its own name, for its own pods alone. Called at this
    machine's address."""
    port, root = _port(cluster, "lws-webhook"), cluster.authority.root.certificate.read_bytes()
    hooks = []
    for one in made["webhooks"]:
        path = one["clientConfig"]["service"]["path"]
        called = {
            "url": f"https://{HOST}:{port}{path}",
            "caBundle": base64.b64encode(root).decode(),
        }
        whose = {"objectSelector": OWN_PODS} if path.endswith("-v1-pod") else {}
        hooks.append({**one, **whose, "clientConfig": called})
    return {**made, "metadata": {"name": f"lws-{made['metadata']['name']}"}, "webhooks": hooks}


def _path_of(made: Json) -> str:
    return f"/apis/{made['apiVersion']}/{made['kind'].lower()}s/{made['metadata']['name']}"


def _port(cluster: Cluster, name: str) -> int:
    return cluster.directory.port(name)


def _healthy(port: int) -> Callable[[], bool]:
    return lambda: is_healthy(HOST, port, "/healthz", tls=False)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
