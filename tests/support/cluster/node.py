"""The one real node: containerd, kubelet and the network of its pods. Root only."""

import json
import os
from pathlib import Path

from tests.support.cluster.api import Api, NotAnsweredError, Object
from tests.support.cluster.build import Report
from tests.support.cluster.containerd import Containerd
from tests.support.cluster.directory import ClusterError, Directory
from tests.support.cluster.images import PAUSE, SHELL
from tests.support.cluster.machine import ADDRESS, Machine
from tests.support.cluster.pki import Authority
from tests.support.cluster.processes import Processes, Program

NAME = "real-0"
SUBNET = ADDRESS.rsplit(".", 1)[0]


class RealNode:
    def __init__(
        self, directory: Directory, authority: Authority, processes: Processes, bin_dir: Path
    ) -> None:
        self._directory = directory
        self._authority = authority
        self._processes = processes
        self._bin_dir = bin_dir
        self._machine = Machine(directory)
        self.containerd = Containerd(directory, bin_dir)

    @property
    def kubelet_root(self) -> Path:
        """The kubelet's folder; its PodResources socket is `pod-resources/kubelet.sock` in it."""
        return self._directory / "kubelet"

    @property
    def cdi(self) -> Path:
        """Where the runtime reads CDI files."""
        return self._directory / "cdi"

    def up(self, admin: Api, report: Report) -> None:
        """Block until the node is Ready: a few seconds. Idempotent."""
        if os.geteuid() != 0:
            raise ClusterError(
                "the real node needs uid 0; without it, ask for simulated nodes alone"
            )
        containerd = self.containerd.program()
        self._machine.prepare()
        report("machine prepared")
        self._write_network()
        self._processes.run(containerd)
        report("containerd ready")
        present = self.containerd.images()
        for image in (PAUSE, SHELL):
            if image.name not in present:
                self.containerd.load(image)
        report("images loaded")
        self._processes.run(self.kubelet(admin))
        report(f"node {NAME} ready")

    def kubelet(self, admin: Api) -> Program:
        who = self._authority.kubeconfig("kubelet", f"system:node:{NAME}", "system:nodes")
        configuration = self._directory / "kubelet.json"
        configuration.write_text(json.dumps(self._kubelet_configuration(), indent=1))
        command = [
            self._bin_dir / "kubelet",
            f"--config={configuration}",
            f"--kubeconfig={who}",
            f"--root-dir={self.kubelet_root}",
            f"--cert-dir={self._directory / 'kubelet-pki'}",
            f"--hostname-override={NAME}",
            f"--node-ip={ADDRESS}",  # a loopback address is refused
        ]
        return Program("kubelet", command, lambda: _is_ready(admin), {"PATH": self.containerd.path})

    def _kubelet_configuration(self) -> Object:
        """Without iptables, DNS and disk pressure: the machine is whatever the tests run on."""
        serving = self._authority.issue(
            "kubelet-serving", f"system:node:{NAME}", "system:nodes", [NAME, ADDRESS]
        )
        root = str(self._authority.root.certificate)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": ADDRESS,
            "port": self._directory.port("kubelet"),
            "readOnlyPort": 0,
            "healthzPort": self._directory.port("kubelet-healthz"),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": root},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "containerRuntimeEndpoint": f"unix://{self.containerd.socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._machine.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "localStorageCapacityIsolation": False,
            "podLogsDir": str(self._directory / "pod-logs"),
            "resolvConf": "",
            "maxPods": 200,
            "evictionHard": {
                "memory.available": "50Mi",
                **dict.fromkeys(
                    (
                        "nodefs.available",
                        "nodefs.inodesFree",
                        "imagefs.available",
                        "imagefs.inodesFree",
                    ),
                    "0%",
                ),
            },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "serializeImagePulls": False,
            "nodeStatusUpdateFrequency": "1s",
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
        }

    def _write_network(self) -> None:
        """Pods reach each other and the node over the bridge, and nothing else."""
        addresses = {
            "subnet": f"{SUBNET}.0/24",
            "rangeStart": f"{SUBNET}.10",
            "rangeEnd": f"{SUBNET}.250",
            "gateway": ADDRESS,
        }
        ipam = {
            "type": "host-local",
            "dataDir": str(self._directory / "cni-addresses"),
            "ranges": [[addresses]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {
            "type": "bridge",
            "bridge": self._machine.bridge,
            "isGateway": False,
            "ipMasq": False,
            "ipam": ipam,
        }
        (self._directory / "cni").mkdir(exist_ok=True)
        network = {"cniVersion": "1.0.0", "name": "rig", "plugins": [bridge]}
        (self._directory / "cni" / "10-rig.conflist").write_text(json.dumps(network))


def _is_ready(admin: Api) -> bool:
    """Ready, and no taint left: pods can be placed on it."""
    try:
        node = admin.find(f"/api/v1/nodes/{NAME}")
    except NotAnsweredError:
        return False
    conditions = (
        {}
        if node is None
        else {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
    )
    return node is not None and conditions.get("Ready") == "True" and not node["spec"].get("taints")
