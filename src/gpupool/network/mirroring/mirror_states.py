"""What agents last reported of mirrors. Kept in memory: a new server learns it within seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from gpupool.wire.network.mirrors import MirrorReading


class MirrorStates:
    """The last readings of each machine. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readings = dict[str, dict[str, MirrorReading]]()

    def replace(self, agent: str, readings: Iterable[MirrorReading]) -> None:
        """Replace what a machine said."""
        found = {reading.key: reading for reading in readings}
        with self._lock:
            self._readings[agent] = found

    def get(self, mirror: str) -> MirrorReading | None:
        """Return the reading of a mirror; None: no machine has it.

        Of a mirror between two machines both have to confirm their part, and what arrives counts.
        """
        with self._lock:
            found = [each[mirror] for each in self._readings.values() if mirror in each]
        # One machine that has both jobs speaks for the mirror alone.
        whole = [one for one in found if one.part == "whole" and not one.reason]
        faults = [one for one in found if one.reason]
        if whole or faults:
            return (whole or faults)[0]
        parts = {one.part: one for one in found}
        if len(parts) == 1:
            (part,) = parts
            other = "target" if part == "source" else "source"
            reason = f"the machine of the {other} has not confirmed it yet"
            return MirrorReading(key=mirror, part=part, reason=reason)
        return parts.get("target")
