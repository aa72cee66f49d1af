"""The control plane's four programs and their command lines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.api import Api, is_healthy
from tests.support.cluster.directory import Directory
from tests.support.cluster.machine import ADDRESS
from tests.support.cluster.pki import Authority
from tests.support.cluster.processes import Program

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
SERVICE_ADDRESS = "10.96.0.1"
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default.svc",
    "127.0.0.1",
    SERVICE_ADDRESS,
    ADDRESS,
)
SCHEDULER_QPS = 5000  # the default of 50 would be the limit of every figure


@dataclass(frozen=True)
class Settings:
    """What may differ between two rigs. `node_grace`: how long a node may be silent; simulated ones
    always are. `for_pods`: pods of the real node reach the API server at the node's address, and it
    calls webhooks at their pods' addresses, since nothing here routes a Service.
    """

    node_grace: str = "24h"
    feature_gates: str = ""
    for_pods: bool = False

    @property
    def gate_flags(self) -> list[str]:
        return [f"--feature-gates={self.feature_gates}"] if self.feature_gates else []


class ControlPlane:
    def __init__(
        self, directory: Directory, authority: Authority, bin_dir: Path, settings: Settings
    ) -> None:
        self._directory = directory
        self._authority = authority
        self._bin_dir = bin_dir
        self._settings = settings

    def admin(self) -> Api:
        pair = self._authority.issue("admin", "admin", "system:masters")
        root = self._authority.root.certificate
        return Api.of_certificate(self._directory.port("api"), root, pair.certificate, pair.key)

    def programs(self) -> Iterator[Program]:
        """In the order of starting. Each needs the one before; the last two only the API server."""
        yield self._etcd()
        yield self._api_server()
        yield self._controller_manager()
        yield self._scheduler()

    def _etcd(self) -> Program:
        client, peer = (
            f"http://127.0.0.1:{self._directory.port(name)}" for name in ("etcd", "etcd-peer")
        )
        command = [
            self._bin_dir / "etcd",
            "--name=rig",
            f"--data-dir={self._directory / 'etcd'}",
            "--unsafe-no-fsync",  # nothing outlives the rig
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=rig={peer}",
            "--quota-backend-bytes=4294967296",
            "--log-level=warn",
        ]
        port = self._directory.port("etcd")
        return Program("etcd", command, lambda: is_healthy("127.0.0.1", port, "/health", tls=False))

    def _api_server(self) -> Program:
        command = [
            self._bin_dir / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._directory.port('etcd')}",
            f"--bind-address={'0.0.0.0' if self._settings.for_pods else '127.0.0.1'}",
            f"--enable-aggregator-routing={str(self._settings.for_pods).lower()}",
            f"--secure-port={self._directory.port('api')}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC",
            "--anonymous-auth=false",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            *self._trust_flags(),
            *self._settings.gate_flags,
        ]
        admin = self.admin()
        return Program("kube-apiserver", command, lambda: admin.answers("/readyz"))

    def _trust_flags(self) -> Iterator[str]:
        """Whom the API server believes, and how it shows who it is itself."""
        server = self._authority.issue("apiserver", "kube-apiserver", names=SERVER_NAMES)
        kubelet_client = self._authority.issue(
            "kubelet-client", "kube-apiserver-kubelet-client", "system:masters"
        )
        signer, root = self._authority.service_account_key(), self._authority.root.certificate
        yield f"--tls-cert-file={server.certificate}"
        yield f"--tls-private-key-file={server.key}"
        yield f"--client-ca-file={root}"
        yield "--service-account-issuer=https://kubernetes.default.svc"
        yield f"--service-account-key-file={signer.certificate}"
        yield f"--service-account-signing-key-file={signer.key}"
        yield f"--kubelet-client-certificate={kubelet_client.certificate}"
        yield f"--kubelet-client-key={kubelet_client.key}"
        yield f"--kubelet-certificate-authority={root}"
        yield "--kubelet-preferred-address-types=InternalIP"

    def _controller_manager(self) -> Program:
        who = self._authority.kubeconfig("controller-manager", "system:kube-controller-manager")
        root = self._authority.root
        command = [
            self._bin_dir / "kube-controller-manager",
            *self._serving_flags("controller-manager", who),
            f"--kubeconfig={who}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._authority.service_account_key().key}",
            f"--root-ca-file={root.certificate}",
            f"--cluster-signing-cert-file={root.certificate}",
            f"--cluster-signing-key-file={root.key}",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            f"--node-monitor-grace-period={self._settings.node_grace}",
            *self._settings.gate_flags,
        ]
        admin = self.admin()
        accounts = "/api/v1/namespaces/default/serviceaccounts/default"  # no pod is let in before this is there
        return Program("kube-controller-manager", command, lambda: admin.answers(accounts))

    def _scheduler(self) -> Program:
        who = self._authority.kubeconfig("scheduler", "system:kube-scheduler")
        configuration = self._directory / "scheduler.json"
        client = {"kubeconfig": str(who), "qps": SCHEDULER_QPS, "burst": 2 * SCHEDULER_QPS}
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {**client, "contentType": "application/vnd.kubernetes.protobuf"},
        }
        configuration.write_text(json.dumps(content))
        flags = self._serving_flags("scheduler", who)
        command = [
            self._bin_dir / "kube-scheduler",
            f"--config={configuration}",
            *flags,
            *self._settings.gate_flags,
        ]
        port = self._directory.port("scheduler")
        return Program(
            "kube-scheduler", command, lambda: is_healthy("127.0.0.1", port, "/readyz", tls=True)
        )

    def _serving_flags(self, port: str, kubeconfig: Path) -> list[str]:
        asks = [
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        ]
        return [*asks, "--bind-address=127.0.0.1", f"--secure-port={self._directory.port(port)}"]
