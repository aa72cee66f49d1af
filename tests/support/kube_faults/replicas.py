"""Controllers and meters behind doors: one that works, and one that is warm behind a shut door and
takes its place."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import ssl
import sys
import urllib.request
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from gpupool.kubernetes.__main__ import main
from gpupool.kubernetes.manifests import install
from tests.support.claims import claimed_port
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_faults.doors import Door, Doors

ENDING_SECONDS = 30.0
LOG_LINES = 60
"""Of a log that a failure shows."""
SETTINGS = {"preemption": {"protectedSeconds": 1, "perHour": 100_000}}
"""The campaign's pods live for seconds, and one tenant has them all."""


def doors_of(cluster: Cluster) -> Doors:
    """Doors to its API server."""
    root = cluster.authority.root.certificate
    url = "https://127.0.0.1:{}".format(cluster.directory.port("api"))
    return Doors(url, ssl.create_default_context(cafile=str(root)))


class Replica:
    """One process and its door."""

    def __init__(self, door: Door, log: Path) -> None:
        self.door = door
        self._log = log
        self._claims = contextlib.ExitStack()
        self.port = self._claims.enter_context(claimed_port())

    def start(self, process: ForkServerProcess) -> None:
        process.start()
        self._process = process
        assert process.pid is not None
        self._handle = os.pidfd_open(process.pid)

    def page(self, path: str) -> str:
        """One of its own pages; empty as long as it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/{path}", timeout=10
            ) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    @property
    def leads(self) -> bool:
        return "it leads" in self.page("readyz")

    @property
    def lives(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        """kill -9; from any thread, and as often as you like."""
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Nothing happens where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def wait(self) -> None:
        """Until it has ended."""
        self._process.join(ENDING_SECONDS)
        assert not self.lives, f"it does not end\n{self.describe()}"

    def describe(self) -> str:
        """What it did and logged, for messages: replicas of one test share the log."""
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join(
            [
                f"its process: {self._process.pid}",
                f"readyz: {self.page('readyz').strip() or 'no answer'}",
                f"writes at its door: {dict(self.door.steps)}",
                f"answers to them: {dict(self.door.answers)}",
                *lines,
            ]
        )

    def bury(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, at once or with a word before; nothing of it is left."""
        self.send(number)
        self.wait()
        os.close(self._handle)
        self.door.close()
        self._claims.close()


class Replicas:
    """Makes them, as copies of one process that has read the program; their words go to one log."""

    def __init__(
        self, pool: ClusterPool, doors: Doors, place: Path, account: str = install.CONTROLLER
    ) -> None:
        self._doors, self._place, self._account = doors, place, account
        place.mkdir(parents=True, exist_ok=True)
        self._known = json.loads(pool.kubeconfig(account).read_text())
        self._number = 0
        self.log = place / f"{self._part}.log"
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(
            [__name__, "gpupool.kubernetes.__main__", "gpupool_native"]
        )

    @property
    def _part(self) -> str:
        return self._account.removeprefix(f"{install.NAMESPACE}-")

    def make(self, *options: str, is_open: bool = True) -> Replica:
        """A process; `options` are its own, `--alone` for a controller that needs no lease."""
        door = self._doors.door(is_open=is_open)
        made = Replica(door, self.log)
        address = f"127.0.0.1:{made.port}"
        pages = ["--listen", address] if self._account == install.CONTROLLER else []
        words = ["--kubeconfig", str(self._kubeconfig(door)), self._part, *pages, *options]
        made.start(self._processes.Process(target=_work, args=(words, self.log), daemon=True))
        return made

    def _kubeconfig(self, door: Door) -> Path:
        self._number += 1
        (cluster,) = self._known["clusters"]
        file = self._place / f"{self._number}.kubeconfig"
        mine = {**cluster, "cluster": {**cluster["cluster"], "server": door.url}}
        file.write_text(json.dumps({**self._known, "clusters": [mine]}))
        return file


def _work(words: list[str], log: Path) -> None:
    """In the new process: `python -m gpupool.kubernetes`, from where its imports are done."""
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(main(words, {}))


class Standing:
    """The controller that works and the next one."""

    def __init__(self, replicas: Replicas, *, direct: bool) -> None:
        self._replicas = replicas
        self._settings = json.dumps({**SETTINGS, "direct": direct})
        self.now = self._make(is_open=True)
        self._next = self._make(is_open=False)

    def _make(self, *, is_open: bool) -> Replica:
        return self._replicas.make("--alone", "--settings", self._settings, is_open=is_open)

    def replace(self) -> None:
        """The one that works is dead, or dies now; the next one goes on."""
        dead, self.now = self.now, self._next
        dead.bury()
        self.now.door.open()
        self._next = self._make(is_open=False)

    def beside(self) -> Replica:
        """The next one works too: two that both believe to lead."""
        second, self._next = self._next, self._make(is_open=False)
        second.door.open()
        return second

    def take(self, second: Replica) -> None:
        """Of two that work, this one is left."""
        dead, self.now = self.now, second
        dead.bury()

    @property
    def lives(self) -> bool:
        return self.now.lives

    def end(self) -> None:
        self._next.bury()
        self.now.bury(signal.SIGTERM)
