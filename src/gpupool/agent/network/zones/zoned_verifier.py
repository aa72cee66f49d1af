"""Verifies networks of every zone: the ports to probe with are in the zone that work names."""

from __future__ import annotations

from pathlib import Path

from gpupool.agent.network.daemons import EngineFiles, locate_engine
from gpupool.agent.network.verification.verifier import NetworkVerifier
from gpupool.agent.network.zones.zone_files import list_zones, locate_zone
from gpupool.wire.network.promises import NetworkVerificationReport, NetworkVerificationWork


class ZonedVerifier:
    """Runs verifications on the engines of one machine. One thread at a time."""

    def __init__(self, root: Path) -> None:
        """Make the verifier.

        Args:
            root: the directory of zone 0's engine.
        """
        self._root = root

    def run(self, work: NetworkVerificationWork) -> NetworkVerificationReport:
        """Verify; as `NetworkVerifier.run`."""
        zones = [0, *list_zones(self._root)]
        others = [self._locate(zone) for zone in zones if zone != work.zone]
        return NetworkVerifier(self._locate(work.zone), others).run(work)

    def _locate(self, zone: int) -> EngineFiles:
        return locate_engine(locate_zone(self._root, zone))
