"""The log of a controller is read once, also by the next agent, and what is lost is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.network.daemons import locate_engine
from gpupool.agent.network.flows import flow_watch as module
from gpupool.agent.network.flows.flow_watch import FlowWatch
from tests.unit.agent.network.flows.test_flow_lines import SYN, make_line

LINE = make_line("v-1/g-1/others", "drop", SYN) + "\n"


class Machine:
    """A machine with the log of a controller, and a switch whose meters a test sets."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "daemons" / "controller"
        self.directory.mkdir(parents=True)
        self.drops: dict[str, int] = {}

    def write(self, text: str, begin: int = 0) -> None:
        with (self.directory / f"log.{begin:016d}").open("a") as file:
            file.write(text)

    def watch(self) -> FlowWatch:
        return FlowWatch(locate_engine(self.root), self.root)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(module, "read_meter_drops", lambda _files: dict(made.drops))
    monkeypatch.setattr(module, "_METER_SECONDS", 0.0)
    return made


def test_each_line_is_reported_once_also_by_the_next_agent(machine: Machine) -> None:
    machine.write(LINE + LINE[:40])
    watch = machine.watch()
    (report,) = watch.read(is_wanted=True)
    assert [record.packets for record in report.records] == [1]
    assert watch.read(is_wanted=True) == []
    machine.write(LINE[40:])
    later = machine.watch()
    (report,) = later.read(is_wanted=True)
    assert [record.packets for record in report.records] == [1]
    assert later.read(is_wanted=True) == []


def test_lines_that_were_rotated_away_are_counted(machine: Machine) -> None:
    machine.write(LINE)
    watch = machine.watch()
    watch.read(is_wanted=True)
    (machine.directory / f"log.{0:016d}").unlink()
    machine.write(LINE, begin=3 * len(LINE))
    (report,) = watch.read(is_wanted=True)
    assert report.lost_bytes == 2 * len(LINE)
    assert len(report.records) == 1


def test_the_log_of_another_engine_is_read_from_its_begin(machine: Machine) -> None:
    machine.write(LINE * 3)
    watch = machine.watch()
    watch.read(is_wanted=True)
    (machine.directory / f"log.{0:016d}").unlink()
    machine.write(LINE)
    (report,) = watch.read(is_wanted=True)
    assert report.lost_bytes == 0
    assert report.number == 2


def test_packets_above_the_rate_are_counted_by_network(machine: Machine) -> None:
    watch = machine.watch()
    machine.drops = {"gpupool-flows-v-1-denied": 100}
    assert watch.read(is_wanted=True) == []
    machine.drops = {"gpupool-flows-v-1-denied": 130, "gpupool-flows-v-1-allowed": 5}
    (report,) = watch.read(is_wanted=True)
    assert report.skipped_packets == {"v-1": 35}
    # The switch was restarted.
    machine.drops = {"gpupool-flows-v-1-denied": 7}
    (report,) = watch.read(is_wanted=True)
    assert report.skipped_packets == {"v-1": 7}


def test_nothing_is_read_that_no_tenant_wants(machine: Machine) -> None:
    machine.write(LINE)
    assert machine.watch().read(is_wanted=False) == []
    assert not (machine.root / "flow-cursor").exists()
