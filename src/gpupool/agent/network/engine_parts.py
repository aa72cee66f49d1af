"""What an engine runs beside its daemons: resolvers, proxies, limits and flow logs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.balancing.proxies import Proxies
from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.flows.flow_watch import FlowWatch
from gpupool.agent.network.job_networks import JobNetworks
from gpupool.agent.network.limiting.limit_watch import LimitWatch
from gpupool.agent.network.mirroring.mirror_watch import MirrorWatch
from gpupool.agent.network.naming.resolvers import NetworkResolvers, SouthboundPlace
from gpupool.agent.network.zones.zone_files import find_zone
from gpupool.agent.network.zones.zone_work import select_zone
from gpupool.network.ovn.credentials import show_certificate
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.promises import LimitReading

#: Seconds in which a thread that starts a resolver has to end.
_STOP_SECONDS: Final = 60.0


class EngineParts:
    """The parts of one engine. `apply` is called by one thread."""

    def __init__(
        self, files: EngineFiles, root: Path, owner_uid: int, helpers: HelperProcesses
    ) -> None:
        """Make the object; nothing runs yet.

        Args:
            root: the engine's directory.
            helpers: the engine's daemons, to which proxies are added.
        """
        self._files = files
        self._root = root
        self._zone = find_zone(root)[1]
        self._owner_uid = owner_uid
        self._networks = JobNetworks(files)
        self._proxies = Proxies(files, helpers, self._networks)
        self._limits = LimitWatch(files)
        self._flows = FlowWatch(files, root)
        self._mirrors = MirrorWatch(files)
        #: What was read back of limits at the last look.
        self._readings: list[LimitReading] | None = None
        #: While the daemons run.
        self._resolvers: NetworkResolvers | None = None
        self._closing = threading.Event()

    def apply(
        self, work: NetworkEngineWork, report: NetworkEngineReport, *, is_news: bool = False
    ) -> NetworkEngineReport:
        """Run what is wanted beside an engine that is ready, and return its report with that.

        A dead proxy is restarted, a limit that the switch has lost is set again.

        Args:
            is_news: the work has not been applied yet.
        """
        if report.state != "ready":
            return report
        work = select_zone(work, self._zone)
        self._start_resolvers(work)
        if is_news:
            self._proxies.apply(work.proxies)
        else:
            self._proxies.watch(work.proxies)
        if is_news or self._limits.is_due():
            self._readings = self._limits.apply(work.limits)
        return report.model_copy(
            update={
                "proxies": self._proxies.read_reports(work.proxies),
                "missing_proxy": self._proxies.missing_program,
                "limits": self._readings,
                "flows": self._flows.read(is_wanted=work.flows),
                "mirrors": self._mirrors.apply(work.mirrors),
            }
        )

    def stop(self) -> None:
        """Stop looking after resolvers; blocks until no thread starts one."""
        resolvers = self._resolvers
        self._resolvers = None
        if resolvers is not None:
            resolvers.close()
            resolvers.join(_STOP_SECONDS)

    def close(self) -> None:
        """Stop looking; what runs goes on. Idempotent."""
        self._closing.set()
        resolvers = self._resolvers
        if resolvers is not None:
            resolvers.close()
        self._networks.close()

    def join(self, seconds: float) -> None:
        resolvers = self._resolvers
        if resolvers is not None:
            resolvers.join(seconds)

    def _start_resolvers(self, work: NetworkEngineWork) -> None:
        """Look after resolvers with the names of the centre's database."""
        place = SouthboundPlace(work.southbound or self._files.remote("southbound"), work.chassis)
        if self._resolvers is not None and self._resolvers.place != place:
            self.stop()
        if self._resolvers is not None or self._closing.is_set():
            return
        if work.southbound and work.certificate is not None:
            show_certificate(**work.certificate.model_dump())
        resolvers = NetworkResolvers(self._files, self._root, self._owner_uid, place)
        resolvers.start()
        self._resolvers = resolvers
        if self._closing.is_set():
            # It was closed meanwhile, without this one.
            resolvers.close()
