"""Reads power and temperature of a card from the kernel's hardware monitor.

Attributes and units: https://docs.kernel.org/hwmon/sysfs-interface.html (millidegrees, microwatts,
microjoules).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.probes.common.sysfs import read_number, read_text

#: Labels of the sensor that is shown, the first that a card has: `edge` and `junction` are
#: amdgpu's, `pkg` is xe's.
TEMPERATURE_LABELS = ("edge", "junction", "pkg")
#: Energy is counted over at least so long: a shorter time gives the noise of the counter.
LEAST_NS = NANOS_PER_SECOND // 10


class HardwareMonitor:
    """The sensors of the cards of this host.

    Args:
        clock: nanoseconds that only grow.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._energy: dict[Path, tuple[int, int]] = {}

    def read_temperature(self, device: Path) -> int | None:
        """Return degrees Celsius of the card whose PCI directory is `device`."""
        sensors = {}
        for sensor in _list_sensors(device, "temp*_input"):
            value = read_number(sensor)
            if value is not None:
                label = read_text(sensor.with_name(sensor.name.replace("_input", "_label")))
                sensors[label or ""] = value
        for label in (*TEMPERATURE_LABELS, *sorted(sensors)):
            if label in sensors:
                return round(sensors[label] / 1000)
        return None

    def read_power(self, device: Path) -> int | None:
        """Return watts: as the driver averages them, else between this call and the last one."""
        for pattern in ("power*_average", "power*_input"):
            for sensor in _list_sensors(device, pattern):
                value = read_number(sensor)
                if value is not None:
                    return round(value / 1_000_000)
        for sensor in _list_sensors(device, "energy*_input"):
            value = read_number(sensor)
            if value is not None:
                return self._compute_power(sensor, value)
        return None

    def _compute_power(self, sensor: Path, microjoules: int) -> int | None:
        now = self._clock()
        last = self._energy.get(sensor)
        if last is None or now - last[0] >= LEAST_NS or microjoules < last[1]:
            self._energy[sensor] = (now, microjoules)
        # The counter begins anew when the driver is loaded again.
        if last is None or now - last[0] < LEAST_NS or microjoules < last[1]:
            return None
        seconds = (now - last[0]) / NANOS_PER_SECOND
        return round((microjoules - last[1]) / 1_000_000 / seconds)


def _list_sensors(device: Path, pattern: str) -> list[Path]:
    return sorted(device.glob(f"hwmon/hwmon*/{pattern}"))
