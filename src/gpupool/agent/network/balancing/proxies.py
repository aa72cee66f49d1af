"""The proxies of load balancers of HTTP on this machine: HAProxy, one for each balancer.

Each runs in a network namespace with a port in the network, under a supervisor of its own, so it
survives the agent and is restarted when it dies. Its worker, which alone reads what clients send,
has an account of its own and sees an empty directory instead of the machine's files. Certificates
are in files of root in memory (/run).
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from ipaddress import IPv4Address
from pathlib import Path
from subprocess import SubprocessError
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.balancing.proxy_control import (
    ProxyControl,
    ProxyUnavailable,
    ServerCounts,
)
from gpupool.agent.network.balancing.proxy_drains import ProxyDrains
from gpupool.agent.network.balancing.proxy_mover import read_serving
from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.job_networks import JobNetworks
from gpupool.agent.network.report_limits import make_proxy_report
from gpupool.agent.network.respawn import make_respawning
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.mechanisms.contract import HelperProcess
from gpupool.network.balancing.proxy_configuration import (
    ProxyPlaces,
    compile_proxy,
    list_server_backends,
)
from gpupool.network.balancing.proxy_model import ProxyRoute, ProxyServer, ProxySettings
from gpupool.wire.network.networks import ProxyReport, ProxyServerReport, ProxyWork

PROGRAM: Final = "haproxy"
#: Accounts of workers: numbers that systemd leaves free ("Users, Groups, UIDs and GIDs on systemd
#: systems"), so no two proxies of a machine and no person share one.
_FIRST_UID: Final = 1_900_000_000
_UIDS: Final = 1 << 24
#: Seconds in which a started proxy answers, and between two looks.
_START_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.02
_CHECK_SECONDS: Final = 10.0

#: Stands for all workers that have ended, among process ids.
_ENDED: Final = 0

log = logging.getLogger(__name__)


class Proxies:
    """The proxies of one machine. Belongs to the engine's thread."""

    def __init__(self, files: EngineFiles, helpers: HelperProcesses, networks: JobNetworks) -> None:
        self._run = files.run
        self._drains = ProxyDrains(files)
        self._helpers = helpers
        self._networks = networks
        self._failures = dict[str, str]()
        #: By proxy and worker, the requests of each server as they were last counted.
        self._requests = defaultdict[str, dict[int, dict[str, int]]](dict)

    @property
    def missing_program(self) -> str:
        """The program that this machine lacks; empty: none."""
        return PROGRAM if shutil.which(PROGRAM) is None else ""

    def apply(self, wanted: Iterable[ProxyWork]) -> None:
        """Run these proxies and no others. Idempotent; a failure of one concerns no other."""
        works = {work.port.id: work for work in wanted}
        for key in self._drains.list_proxies():
            if key not in works:
                self._remove(key)
        for work in works.values():
            self._try_one(work)

    def watch(self, wanted: Iterable[ProxyWork]) -> None:
        """Bring back those that have ended or failed; the others cost one question each."""
        for work in wanted:
            key = work.port.id
            control = ProxyControl(self._drains.locate(key) / "master.sock")
            if key in self._failures or not _is_running(control):
                self._try_one(work)

    def read_reports(self, wanted: Iterable[ProxyWork]) -> list[ProxyReport]:
        """Read how the proxies and the jobs behind them are."""
        serving = read_serving(self._run)
        reports = list[ProxyReport]()
        for work in wanted:
            is_serving = not work.is_paired or work.port.id in serving
            report = self._read_report(work.port.id)
            reports.append(report.model_copy(update={"is_serving": is_serving}))
        return reports

    def _try_one(self, work: ProxyWork) -> None:
        key = work.port.id
        try:
            self._apply_one(work)
            self._failures.pop(key, None)
        except NetworkingUnavailable as error:
            self._note_failure(key, error.message)
        except (ProxyUnavailable, SupervisorError, SubprocessError, OSError, ValueError) as error:
            self._note_failure(key, str(error))

    def _note_failure(self, key: str, reason: str) -> None:
        if self._failures.get(key) != reason:
            log.warning("proxy %s: %s", key, reason)
        self._failures[key] = reason

    def _apply_one(self, work: ProxyWork) -> None:
        key = work.port.id
        if self.missing_program:
            raise NetworkingUnavailable(f"this machine lacks {PROGRAM}")
        directory = self._drains.locate(key)
        root = directory / "root"
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        settings = make_settings(work)
        places = ProxyPlaces(directory / "certificate.pem", root, find_uid(work))
        if work.certificate is not None:
            _write_secret(places.certificate, work.certificate)
        self._drains.write_backends(key, list_server_backends(settings), work.drain_seconds)
        with self._drains.change(key):
            self._put_in_force(work, settings, places)

    def _put_in_force(self, work: ProxyWork, settings: ProxySettings, places: ProxyPlaces) -> None:
        """Start the proxy, or let it read its configuration again where that has changed."""
        key = work.port.id
        directory = self._drains.locate(key)
        text = compile_proxy(settings, places, self._drains.list_draining(key))
        configuration = directory / "haproxy.cfg"
        # A new certificate is a change too, although the text is the same.
        change = hashlib.sha256(f"{text}\0{work.certificate or ''}".encode()).hexdigest()
        if not self._networks.has_all_addresses(work.port):
            # Its namespace is made again, which a process of an earlier one would never see.
            self._helpers.release(key)
        namespace = self._networks.attach(work.port).namespace
        if not configuration.exists() or configuration.read_text() != text:
            _check_configuration(directory / "next.cfg", text)
            write_durably(configuration, text.encode(), mode=0o600)
        control = ProxyControl(directory / "master.sock")
        helper = _make_helper(key, directory, str(namespace))
        # One that is just being restarted may have read what was there before.
        has_started = self._helpers.is_running(helper.name)
        self._helpers.start(key, (helper,))
        _wait_until_running(control)
        applied = directory / "applied"
        if has_started and (not applied.exists() or applied.read_text() != change):
            servers = _list_draining_servers(settings)
            control.stop_new_requests(servers, control.list_workers())
            self._count_requests(key, control)
            control.reload()
            _wait_until_running(control)
        applied.write_text(change)

    def _remove(self, key: str) -> None:
        self._helpers.release(key)
        self._networks.detach(key)
        self._drains.remove(key)
        self._failures.pop(key, None)
        self._requests.pop(key, None)

    def _read_report(self, key: str) -> ProxyReport:
        failure = self._failures.get(key)
        if failure is not None:
            return ProxyReport(id=key, state="failed", reason=failure[:400])
        try:
            servers = self._count_requests(
                key, ProxyControl(self._drains.locate(key) / "master.sock")
            )
        except ProxyUnavailable as error:
            return ProxyReport(id=key, state="failed", reason=str(error)[:400])
        return make_proxy_report(key, servers)

    def _count_requests(self, key: str, control: ProxyControl) -> list[ProxyServerReport]:
        """Read the servers of the current worker, with the counts of all workers so far."""
        workers = control.list_workers()
        counts = self._requests[key]
        _fold_counts(counts, workers.pids)
        sessions = defaultdict[str, int](int)
        current = dict[str, ServerCounts]()
        for worker in workers.pids:
            try:
                servers = control.read_servers(worker)
            except ProxyUnavailable:
                # An old worker has just ended: what it counted last is added.
                continue
            counts[worker] = defaultdict(int)
            for server in servers:
                counts[worker][server.key] += server.requests
                sessions[server.key] += server.sessions
            if worker == workers.current:
                current = {server.key: server for server in servers}
        reports = list[ProxyServerReport]()
        for name, server in sorted(current.items()):
            report = ProxyServerReport(
                id=name,
                state=server.state,
                check=server.check[:80],
                sessions=sessions[name],
                requests=sum(one.get(name, 0) for one in counts.values()),
            )
            reports.append(report)
        return reports


def _fold_counts(counts: dict[int, dict[str, int]], workers: Iterable[int]) -> None:
    """Add up the counts of workers that have ended, under `_ENDED`."""
    for worker in set(counts) - {_ENDED, *workers}:
        total = counts.setdefault(_ENDED, defaultdict(int))
        for key, count in counts.pop(worker).items():
            total[key] += count


def end_proxies(files: EngineFiles, helpers: HelperProcesses) -> None:
    """End all proxies of an engine that ends. Idempotent. Raises SupervisorError."""
    for key in ProxyDrains(files).list_proxies():
        helpers.release(key)


def make_settings(work: ProxyWork) -> ProxySettings:
    """Make what the compiler takes of what the server wants."""
    routes = list[ProxyRoute]()
    for route in work.routes:
        servers = tuple(
            ProxyServer(one.id, IPv4Address(one.address), one.port, one.is_draining)
            for one in route.servers
        )
        routes.append(ProxyRoute(route.host, route.path, servers))
    return ProxySettings(
        listen_port=work.listen_port,
        https_port=work.https_port,
        redirects=work.redirects,
        is_sticky=work.is_sticky,
        check_path=work.check_path,
        routes=tuple(routes),
        has_ipv6=work.port.address6 is not None,
    )


def find_uid(work: ProxyWork) -> int:
    """Find the account of a proxy's worker: of its MAC address, which is unique in the pool."""
    number = int(work.port.mac.replace(":", ""), 16)
    return _FIRST_UID + number % _UIDS


def _make_helper(key: str, directory: Path, namespace: str) -> HelperProcess:
    return HelperProcess(
        f"proxy-{key}",
        # Restarted at once, also without an agent: the configuration is that of the last change.
        make_respawning(
            (
                PROGRAM,
                "-W",
                "-db",
                "-S",
                f"{directory / 'master.sock'},mode,600",
                "-f",
                str(directory / "haproxy.cfg"),
            )
        ),
        {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        network_namespace=namespace,
    )


def _list_draining_servers(settings: ProxySettings) -> dict[str, list[str]]:
    draining = set[str]()
    for route in settings.routes:
        draining |= {server.key for server in route.servers if server.is_draining}
    backends = list_server_backends(settings)
    return {key: names for key, names in backends.items() if key in draining}


def _check_configuration(path: Path, text: str) -> None:
    """Raise ValueError for a configuration that HAProxy refuses: the one before stays in force."""
    write_durably(path, text.encode(), mode=0o600)
    try:
        done = subprocess.run(
            [PROGRAM, "-c", "-q", "-f", str(path)],
            capture_output=True,
            text=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
    finally:
        path.unlink()
    if done.returncode != 0:
        raise ValueError(f"HAProxy refuses its configuration: {done.stderr.strip()[:300]}")


def _write_secret(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        write_durably(path, text.encode(), mode=0o600)


def _is_running(control: ProxyControl) -> bool:
    try:
        return control.list_workers().current is not None
    except ProxyUnavailable:
        return False


def _wait_until_running(control: ProxyControl) -> None:
    """Block until a worker takes connections. Raises ProxyUnavailable."""
    deadline = time.monotonic() + _START_SECONDS
    while not _is_running(control):
        if time.monotonic() >= deadline:
            raise ProxyUnavailable(f"HAProxy did not start within {_START_SECONDS:g} s")
        time.sleep(_LOOK_SECONDS)
