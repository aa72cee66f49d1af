"""Jobs that finish their requests before they end: no new ones while a stop waits.

What is drained is in files beside the proxy, so it holds for a reload and for the next agent too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gpupool.agent.network.balancing.proxy_control import ProxyControl, ProxyUnavailable
from gpupool.agent.network.balancing.proxy_mover import PROXIES
from gpupool.agent.network.daemons import EngineFiles

#: The ids of proxies begin with it, those of jobs' ports do not.
_PREFIX: Final = "h-"
#: File that is there while a proxy gets another configuration.
_CHANGING: Final = "changing"


class ProxyDrains:
    """The directories of the proxies of one machine. Thread-safe."""

    def __init__(self, files: EngineFiles) -> None:
        self._root = files.run / PROXIES

    def locate(self, proxy: str) -> Path:
        """Return the directory of a proxy."""
        return self._root / proxy

    def list_proxies(self) -> list[str]:
        """List the proxies that have a directory."""
        return sorted(one.name for one in self._root.iterdir()) if self._root.is_dir() else []

    def remove(self, proxy: str) -> None:
        """Remove all that a proxy left. Idempotent."""
        shutil.rmtree(self.locate(proxy), ignore_errors=True)

    def write_backends(
        self, proxy: str, backends: dict[str, list[str]], drain_seconds: int
    ) -> None:
        """Write down what is behind a proxy, and forget the drains of jobs that are not any more."""
        directory = self.locate(proxy)
        record = directory / "backends.new"
        record.write_text(json.dumps({"backends": backends, "drain_seconds": drain_seconds}))
        record.rename(directory / "backends")
        for port in self.list_draining(proxy) - set(backends):
            (directory / "draining" / port).unlink(missing_ok=True)

    @contextmanager
    def change(self, proxy: str) -> Iterator[None]:
        """Mark a proxy as one whose next worker may not know a drain that begins meanwhile."""
        mark = self.locate(proxy) / _CHANGING
        mark.touch()
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)

    def list_draining(self, proxy: str) -> frozenset[str]:
        """List the ports of jobs that end, of those behind a proxy."""
        directory = self.locate(proxy) / "draining"
        return (
            frozenset(one.name for one in directory.iterdir())
            if directory.is_dir()
            else frozenset()
        )

    def find_seconds(self, port: str) -> int:
        """Return for how long a job may finish its requests; 0: it is behind no proxy."""
        found = [seconds for _, _, seconds in self._list_users(port)]
        return max(found, default=0)

    def drain(self, port: str) -> int:
        """Give a job no new requests, and return how many it serves still. Idempotent.

        It counts one more for each proxy that is about to get another configuration.
        """
        count = 0
        for proxy, backends, _ in self._list_users(port):
            directory = self.locate(proxy)
            control = ProxyControl(directory / "master.sock")
            try:
                (directory / "draining").mkdir(mode=0o700, exist_ok=True)
                (directory / "draining" / port).touch()
                if (directory / _CHANGING).exists():
                    # The next worker may have been configured before, and would send it requests.
                    count += 1
                workers = control.list_workers()
                # Each time: a worker may have started in between, without it.
                control.stop_new_requests({port: backends}, workers)
                for worker in workers.pids:
                    servers = control.read_servers(worker)
                    count += sum(one.sessions for one in servers if one.key == port)
            except (ProxyUnavailable, FileNotFoundError):
                # A proxy that does not run, or has just been deleted, serves no requests.
                continue
        return count

    def _list_users(self, port: str) -> list[tuple[str, list[str], int]]:
        """List the proxies that a job is behind, with its backends there and their bound."""
        found = list[tuple[str, list[str], int]]()
        for proxy in self.list_proxies():
            try:
                record = json.loads((self.locate(proxy) / "backends").read_text())
            except FileNotFoundError:
                continue
            backends = record["backends"].get(port)
            if backends:
                found.append((proxy, backends, record["drain_seconds"]))
        return found


def is_proxy(port: str) -> bool:
    """Whether a port is a proxy's, by its id."""
    return port.startswith(_PREFIX)
