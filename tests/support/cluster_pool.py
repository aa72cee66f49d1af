"""gpupool on the tests' cluster, installed as users install it, with a controller process and
simulated agents."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import EntryState, Mode, read_entries
from tests.support import kube_builders
from tests.support.claims import claim_port
from tests.support.cluster.api import Api, RefusedError
from tests.support.cluster.api_watch import ApiWatch
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.machine import ADDRESS
from tests.support.cluster.node import NAME as NODE
from tests.support.cluster.node import RealNode
from tests.support.processes import die_with_owner

SECONDS = 30.0
POLL_SECONDS = 0.05
#: Seconds after which agents look although no watch reported a change.
FALLBACK_SECONDS = 0.5
MANAGED_PODS = f"/api/v1/pods?labelSelector={names.MANAGED}%3Dtrue"


class ClusterPool:
    """The pool's objects in a cluster. `with`: the controller runs, agents answer; all of it ends
    at the end."""

    def __init__(
        self, cluster: Cluster, place: Path, agents: SimulatedAgents | None = None
    ) -> None:
        self.cluster, self.place, self.admin = cluster, place, cluster.admin()
        self.controller: subprocess.Popen[bytes] | None = None
        self.webhook: subprocess.Popen[bytes] | None = None
        self.webhook_port, self._webhook_dialects = 0, ""
        self.agents = agents or SimulatedAgents(cluster.admin())

    def install(self) -> None:
        """As `python -m gpupool.kubernetes install | kubectl apply -f -` does it; twice is once."""
        for made in install.objects():
            self.admin.apply(install.path_of(made), made)
        for made in install.objects():
            if made["kind"] == "CustomResourceDefinition":
                self.admin.until(install.path_of(made), _established)

    def adopt(self, nodes: Sequence[str], cards: int = 4) -> None:
        """Ledgers for these simulated nodes, with cards and slots."""
        for name in nodes:
            node = self.admin.get(f"/api/v1/nodes/{name}")
            self.admin.apply(f"{ledger.NODES}/{name}", ledger.new_ledger(name, node, Mode.SLOT))
            self.admin.merge(
                f"{ledger.NODES}/{name}/status", {"status": kube_builders.status(name, cards)}
            )
            slots = {names.SLOT: "512"}
            self.admin.merge(
                f"/api/v1/nodes/{name}/status",
                {"status": {"capacity": slots, "allocatable": slots}},
            )
        self.agents.names |= set(nodes)

    def forget_ledgers(self) -> None:
        """Delete every ledger, also those that hold something."""
        for found in self.admin.get(ledger.NODES)["items"]:
            self.admin.merge(
                f"{ledger.NODES}/{found['metadata']['name']}",
                {"metadata": {"annotations": {names.GIVEN_UP: "true"}}},
            )
        self.admin.delete(ledger.NODES)

    def kubeconfig(self, account: str) -> Path:
        access = self.cluster.access()
        return access.kubeconfig(f"{account}.kubeconfig", access.token(install.NAMESPACE, account))

    def start(self, *more: str, **settings: Any) -> None:
        """The controller, as the account that it has in a cluster; `more` are options of it."""
        said = {"preemption": {"protectedSeconds": 1}, **settings}
        file = self.kubeconfig(install.CONTROLLER)
        words = [
            sys.executable,
            "-m",
            "gpupool.kubernetes",
            "--kubeconfig",
            str(file),
            "controller",
            "--alone",
        ]
        words += ["--settings", json.dumps(said), *more]
        with open(self.place / "controller.log", "ab") as log:
            self.controller = subprocess.Popen(
                words,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=die_with_owner(signal.SIGKILL),
            )

    def start_webhook(self, dialects: str = "all") -> None:
        """And have the API server ask it, where this machine's address reaches it."""
        self._webhook_dialects = dialects
        self.begin_webhook()
        path = install.path_of(install.webhook())
        trusted = self.admin.until(
            path, lambda found: bool(found["webhooks"][0]["clientConfig"].get("caBundle"))
        )
        assert trusted

    def begin_webhook(self) -> None:
        """Its process, at a port of its own: the last one may be somebody else's by now. Until it
        listens."""
        port = self.webhook_port = claim_port()
        self.admin.apply(*_placed(install.webhook(url=f"https://localhost:{port}/admit")))
        words = [
            sys.executable,
            "-m",
            "gpupool.kubernetes",
            "--kubeconfig",
            str(self.kubeconfig(install.WEBHOOK)),
        ]
        said = json.dumps({"dialects": self._webhook_dialects.split(",")})
        words += ["webhook", "--listen", f"127.0.0.1:{port}", "--settings", said]
        with open(self.place / "webhook.log", "ab") as log:
            self.webhook = subprocess.Popen(
                words,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=die_with_owner(signal.SIGKILL),
            )
        self.until(lambda: answers(port), "an admission that listens")

    def kill_webhook(self) -> None:
        """kill -9."""
        assert self.webhook is not None
        self.webhook.kill()
        self.webhook.wait()

    def install_native(self) -> None:
        """What admits plain native pods inside the API server; in effect a moment later."""
        for made in install.native():
            self.admin.apply(*_placed(made))

    def uninstall_native(self) -> None:
        for made in reversed(install.native()):
            self.admin.delete(install.path_of(made))

    def end_webhook(self) -> None:
        """The configuration first, or nobody could make pods that ask."""
        if self.webhook is not None:
            self.admin.delete(install.path_of(install.webhook()))
            self.webhook.terminate()
            self.webhook.wait(SECONDS)
            self.webhook = None

    @property
    def running(self) -> bool:
        return self.controller is not None and self.controller.poll() is None

    def log(self) -> str:
        """The controller's last words; none where it was never started."""
        file = self.place / "controller.log"
        return file.read_text()[-3000:] if file.exists() else ""

    def kill(self) -> None:
        """kill -9."""
        assert self.controller is not None
        self.controller.kill()
        self.controller.wait()

    def __enter__(self) -> ClusterPool:
        self.install()
        self.forget_ledgers()  # what another module left has no agents any more
        self.agents.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_webhook()
        if self.controller is not None and self.running:
            self.controller.terminate()
            self.controller.wait(SECONDS)
        self.agents.stop()
        self.admin.close()

    def clear(self, pods_path: str, seconds: float = SECONDS) -> None:
        """No pod there, and no card held: nodes without a kubelet let a pod go only when nobody
        waits for it."""
        assert self.running, self.log()
        self.admin.delete(f"{pods_path}?gracePeriodSeconds=0")
        self.until(lambda: not any(self.entries().values()), "every ledger empty", seconds)

    # --- looks --------------------------------------------------------------------------------

    def entries(self) -> dict[str, list[dict[str, Any]]]:
        """By node what stands in its ledger."""
        items = self.admin.get(ledger.NODES)["items"]
        return {
            item["metadata"]["name"]: [one.to_json() for one in read_entries(item["spec"])]
            for item in items
        }

    def cards(self) -> dict[str, list[dict[str, Any]]]:
        """By node its cards."""
        items = self.admin.get(ledger.NODES)["items"]
        return {item["metadata"]["name"]: item.get("status", {}).get("cards", []) for item in items}

    def until(
        self,
        condition: Callable[[], Any],
        what: str,
        seconds: float = SECONDS,
        every: float = POLL_SECONDS,
    ) -> Any:
        """Look again until it is so; fails with what was waited for and the controller's last
        words."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(every)  # between two looks from outside
        raise AssertionError(f"never became true: {what}\n{self.log()}")


class NodeParts:
    """The agent and the plugin of slots on the real node, each a process that can be killed."""

    def __init__(self, pool: ClusterPool, node: RealNode, place: Path, sim: str) -> None:
        self._pool, self._node, self.place, self._sim = pool, node, place, sim
        self.agent: subprocess.Popen[bytes] | None = None
        self.plugin: subprocess.Popen[bytes] | None = None
        self.metrics_port = claim_port()
        self.looked_at: tuple[Any, Any] | None = None
        """The node before the parts were started, and after, while it was only looked at."""

    def start_agent(self) -> None:
        access = self._pool.cluster.access()
        token = access.token(install.NAMESPACE, install.AGENT, NODE)
        file = access.kubeconfig("agent.kubeconfig", token)
        words = [
            "-m",
            "gpupool.kubernetes",
            "--kubeconfig",
            str(file),
            "agent",
            "--node",
            NODE,
            "--sim",
            self._sim,
        ]
        words += [
            "--state-dir",
            str(self.place / "state"),
            "--socket",
            str(self.place / "agent.sock"),
        ]
        words += ["--cdi", str(self._node.cdi), "--kubelet", str(self._node.kubelet_root)]
        words += ["--listen", f"{ADDRESS}:{self.metrics_port}"]
        self.agent = self._start(words, "agent.log")

    def restart_agent(self, sim: str) -> None:
        """Start the agent anew with other simulated cards."""
        assert self.agent is not None
        self.agent.terminate()
        self.agent.wait(SECONDS)
        self._sim = sim
        self.start_agent()

    @property
    def simulated(self) -> Path:
        """Where the agent's simulated cards are made to fail (`set_health`)."""
        return self.place / "state" / "simulated"

    def start_plugin(self) -> None:
        words = ["-m", "gpupool.kubernetes.slots", "--agent", str(self.place / "agent.sock")]
        self.plugin = self._start(words, "plugin.log")

    def _start(self, words: list[str], log: str) -> subprocess.Popen[bytes]:
        with open(self.place / log, "ab") as file:
            return subprocess.Popen(
                [sys.executable, *words], stdout=file, stderr=file, stdin=subprocess.DEVNULL
            )

    def log(self) -> str:
        return "".join(
            (self.place / name).read_text()[-2000:] for name in ("agent.log", "plugin.log")
        )

    def stop(self) -> None:
        for process in (self.plugin, self.agent):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(SECONDS)


class SimulatedAgents:
    """What node agents report, without nodes: which version of a ledger they have seen, and who
    uses a slot."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.names: set[str] = set()
        self._ended = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated-agents", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._news.set()
        self._thread.join(SECONDS)
        self._api.close()

    def _run(self) -> None:
        watch = ApiWatch(self._api, (ledger.NODES, MANAGED_PODS), self._news.set)
        watch.start()
        try:
            while not self._ended.is_set():
                # A change of `names` is no change of an object.
                self._news.wait(FALLBACK_SECONDS)
                self._news.clear()
                self._look_once()
        finally:
            watch.stop()

    def _look_once(self) -> None:
        try:
            bound = {pod["metadata"]["uid"] for pod in self._pods() if pod["spec"].get("nodeName")}
            for node in self._api.get(ledger.NODES)["items"]:
                if node["metadata"]["name"] in self.names:
                    self._report(node, bound)
        except RefusedError as refusal:
            if refusal.status not in (404, 409):
                raise

    def _pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.get(MANAGED_PODS)["items"]
        return found

    def _report(self, node: dict[str, Any], bound: set[str]) -> None:
        used = [
            {
                "uid": one.uid,
                "container": one.container,
                "generation": one.generation,
                "slot": f"s{n:04d}",
            }
            for n, one in enumerate(read_entries(node["spec"]))
            if one.uid in bound and one.state is not EntryState.DRAINING
        ]
        seen = node["metadata"]["generation"]
        known = node.get("status", {})
        if known.get("observedGeneration") != seen or known.get("slots", []) != used:
            patch = {"status": {"observedGeneration": seen, "slots": used}}
            self._api.merge(f"{ledger.NODES}/{node['metadata']['name']}/status", patch)


def answers(port: int) -> bool:
    """Whether an admission listens there and has its lists."""
    try:
        with urllib.request.urlopen(
            f"https://localhost:{port}/readyz", context=ssl._create_unverified_context()
        ) as one:
            return bool(one.status == 200)
    except OSError:
        return False


def _placed(made: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return install.path_of(made), made


def fresh(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod as it is created: without what only the server gives."""
    meta = {
        k: v
        for k, v in pod["metadata"].items()
        if k not in ("uid", "resourceVersion", "creationTimestamp")
    }
    return {**pod, "metadata": meta}


def _established(crd: dict[str, Any]) -> bool:
    return any(
        c["type"] == "Established" and c["status"] == "True"
        for c in crd.get("status", {}).get("conditions", ())
    )


def environ_without_cluster() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KUBE", "GPUPOOL_"))
    }


def said(pod: dict[str, Any]) -> str:
    """Its condition in words, for messages."""
    return json.dumps(pod.get("status", {}).get("conditions"))
