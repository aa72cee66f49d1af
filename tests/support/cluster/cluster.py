"""The rig as tests hold it: one directory, its control plane, and what is added to it."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.cluster.access import Access
from tests.support.cluster.api import Api
from tests.support.cluster.build import Report
from tests.support.cluster.control import CONTROL_PLANE, ControlPlane, Settings
from tests.support.cluster.directory import Directory
from tests.support.cluster.machine import Machine
from tests.support.cluster.node import RealNode
from tests.support.cluster.pki import Authority
from tests.support.cluster.processes import Processes
from tests.support.cluster.simulated import simulate_nodes


class Cluster:
    """`up`, `add_real_node` and `down` are idempotent; each may be killed at any line and called
    again by another process. `bin_dir` is what `build` returned; `down` needs none."""

    def __init__(
        self, path: Path, bin_dir: Path | None = None, settings: Settings | None = None
    ) -> None:
        self.directory = Directory(path)
        self.authority = Authority(self.directory)
        self.processes = Processes(self.directory)
        self._bin_dir = bin_dir or Path("/nonexistent")
        self._plane = ControlPlane(
            self.directory, self.authority, self._bin_dir, settings or Settings()
        )

    def up(self, report: Report) -> None:
        """Block until pods can be created and placed: 5 to 10 s."""
        with self.directory.locked():
            etcd, api_server, *controllers = self._plane.programs()
            for program in (etcd, api_server):
                self.processes.run(program)
                report(f"{program.name} ready")
            for program in controllers:
                self.processes.start(program)
            for program in controllers:
                self.processes.await_ready(program)
                report(f"{program.name} ready")

    def copy_store(self) -> None:
        """Keep a copy of all that the API server knows; etcd is away for a second."""
        self._without(["etcd"], lambda: shutil.copytree(self._store, self._copy))

    def restore_store(self) -> None:
        """All is as it was in that copy, versions too. As the manual has it: the API server is
        stopped before."""

        def put_back() -> None:
            shutil.rmtree(self._store)
            self._copy.rename(self._store)

        self._without(CONTROL_PLANE, put_back)

    def _without(self, programs: Sequence[str], work: Callable[[], object]) -> None:
        for name in reversed(programs):
            self.processes.kill(name)
        work()
        self.up(lambda _: None)

    @property
    def _store(self) -> Path:
        return self.directory / "etcd"

    @property
    def _copy(self) -> Path:
        return self.directory / "etcd.copy"

    def admin(self) -> Api:
        """A client that may do anything, on a connection of its own."""
        return self._plane.admin()

    def access(self) -> Access:
        return Access(self.admin(), self.directory, self.authority)

    def program(self, name: str) -> Path:
        """One of those that were built."""
        return self._bin_dir / name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's, for kubectl and other clients."""
        return self.authority.kubeconfig("admin", "admin", "system:masters")

    def simulate_nodes(
        self, count: int, resources: Mapping[str, str] | None = None, prefix: str = "sim"
    ) -> list[str]:
        return simulate_nodes(self.admin(), count, resources or {}, prefix)

    def add_real_node(self, report: Report) -> RealNode:
        with self.directory.locked():
            node = RealNode(self.directory, self.authority, self.processes, self._bin_dir)
            node.up(self.admin(), report)
        return node

    def down(self) -> None:
        """End everything and leave nothing, the directory included; nothing happens where there is
        nothing."""
        if not self.directory.path.exists():
            return
        with self.directory.locked():
            self.processes.kill_all()
            if os.geteuid() == 0:
                Machine(self.directory).restore()
            self.directory.remove()
