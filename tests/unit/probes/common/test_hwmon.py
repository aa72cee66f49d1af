"""Power and temperature as the kernel's hardware monitor shows them."""

from collections.abc import Iterator
from pathlib import Path

from gpupool.probes.common.hwmon import HardwareMonitor
from tests.support.recorded_hosts import write


def test_the_edge_is_shown_before_other_sensors(tmp_path: Path) -> None:
    folder = tmp_path / "hwmon/hwmon3"
    for number, (label, value) in enumerate({"mem": 54_000, "junction": 51_499}.items(), start=1):
        write(folder / f"temp{number}_label", label)
        write(folder / f"temp{number}_input", value)
    assert HardwareMonitor().read_temperature(tmp_path) == 51
    write(folder / "temp3_label", "edge")
    write(folder / "temp3_input", 45_000)
    assert HardwareMonitor().read_temperature(tmp_path) == 45


def test_a_sensor_without_label_is_better_than_none(tmp_path: Path) -> None:
    assert HardwareMonitor().read_temperature(tmp_path) is None
    write(tmp_path / "hwmon/hwmon0/temp1_input", 30_000)
    assert HardwareMonitor().read_temperature(tmp_path) == 30


def test_the_average_power_is_shown_before_that_of_the_moment(tmp_path: Path) -> None:
    assert HardwareMonitor().read_power(tmp_path) is None
    write(tmp_path / "hwmon/hwmon0/power1_input", 80_000_000)
    assert HardwareMonitor().read_power(tmp_path) == 80
    write(tmp_path / "hwmon/hwmon0/power1_average", 75_400_000)
    assert HardwareMonitor().read_power(tmp_path) == 75


def test_power_comes_from_energy_between_two_calls(tmp_path: Path) -> None:
    times: Iterator[int] = iter((0, 10**6, 2 * 10**9, 4 * 10**9, 6 * 10**9))
    sensors = HardwareMonitor(lambda: next(times))
    energy = tmp_path / "hwmon/hwmon2/energy1_input"
    write(energy, 1_000_000)
    assert sensors.read_power(tmp_path) is None
    # A millisecond later: the counter has hardly moved.
    assert sensors.read_power(tmp_path) is None
    write(energy, 241_000_000)
    assert sensors.read_power(tmp_path) == 120
    # The driver was loaded anew.
    write(energy, 5)
    assert sensors.read_power(tmp_path) is None
    write(energy, 100_000_005)
    assert sensors.read_power(tmp_path) == 50
