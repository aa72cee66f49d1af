"""What probes of recorded hosts share: changes of health, tools that fail, identities."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.model.device import Device, DeviceHealth, DeviceUsage
from gpupool.probes.common.card_probe import CardProbe, CardReading, HostReading, MachineIdentity
from gpupool.probes.contract import HealthEvent

CARD = Device("GPU-1", 0, "amd", "MI210", "MI210", 64 << 30, health=DeviceHealth.OK)
WELL = HostReading((CardReading(CARD, DeviceUsage(7, 1 << 30)),), driver_version="6.8")
ILL = replace(CARD, health=DeviceHealth.WARNING, health_reason="2 uncorrected errors")


class OneCard(CardProbe):
    """A host whose reading a test sets."""

    name = "amd"
    vendor = "amd"
    health_seconds = 0.0

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.host = WELL

    def read_host(self) -> HostReading:
        return self.host


def test_a_scan_has_what_the_reading_has(tmp_path: Path) -> None:
    machine = OneCard(tmp_path).scan()
    assert machine.devices == (CARD,)
    assert machine.driver_version == "6.8"
    assert machine.topology.devices == ("GPU-1",)
    assert not machine.simulated


def test_a_change_of_health_is_an_event_once(tmp_path: Path) -> None:
    probe = OneCard(tmp_path)
    probe.scan()
    assert probe.wait_events(0) == ()
    probe.host = HostReading((CardReading(ILL, DeviceUsage()),))
    event = HealthEvent("GPU-1", DeviceHealth.WARNING, "2 uncorrected errors")
    assert probe.wait_events(60) == (event,)
    assert probe.wait_events(0) == ()


def test_a_reading_that_fails_takes_no_card_away(tmp_path: Path) -> None:
    probe = OneCard(tmp_path)
    probe.scan()
    probe.host = HostReading(problem="the tool hangs")
    assert not probe.available().ok
    assert probe.observe(["GPU-1", "GPU-2"]) == {"GPU-1": DeviceUsage()}
    assert probe.health() == {"GPU-1": (DeviceHealth.UNKNOWN, "the tool hangs")}
    event = HealthEvent("GPU-1", DeviceHealth.UNKNOWN, "the tool hangs")
    assert probe.wait_events(60) == (event,)
    with pytest.raises(ServiceUnavailable, match="amd: the tool hangs"):
        probe.scan()


def test_a_card_that_is_gone_is_left_out(tmp_path: Path) -> None:
    probe = OneCard(tmp_path)
    probe.scan()
    other = CardReading(replace(CARD, uuid="GPU-2"), DeviceUsage())
    probe.host = HostReading((other,))
    assert probe.observe(["GPU-1"]) == {}
    assert list(probe.health()) == ["GPU-2"]


def test_identities_differ_by_host_vendor_and_place_and_stay(tmp_path: Path) -> None:
    (tmp_path / "a/etc").mkdir(parents=True)
    (tmp_path / "b/etc").mkdir(parents=True)
    (tmp_path / "a/etc/machine-id").write_text("0123\n")
    (tmp_path / "b/etc/machine-id").write_text("4567\n")
    first = MachineIdentity(tmp_path / "a")
    second = MachineIdentity(tmp_path / "b")
    uuid = first.make_uuid("ascend", "0000:c1:00.0")
    assert uuid.startswith("ASCEND-")
    assert uuid == MachineIdentity(tmp_path / "a").make_uuid("ascend", "0000:c1:00.0")
    others = {
        second.make_uuid("ascend", "0000:c1:00.0"),
        first.make_uuid("ascend", "0000:c2:00.0"),
        first.make_uuid("metax", "0000:c1:00.0"),
    }
    assert len(others | {uuid}) == 4
