"""A container with a partition: what its CDI device has, and what is left after it."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from gpupool.base.errors import CardNotReady, RequestRejection
from gpupool.base.units import WHOLE
from gpupool.kubernetes.node.cdi import build_device
from gpupool.kubernetes.node.prepare import SHOWN, EntryPreparer
from gpupool.kubernetes.node.status import build_status
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.mechanisms import registry
from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool.mechanisms.contract import JobSeat, PreparedAllocation
from gpupool.mechanisms.driver.driver_files import find_templates
from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.model.allocation import Seat
from gpupool.model.partition import PartitionProfile, PartitionSlot
from gpupool.model.topology import Topology
from gpupool.probes.contract import Machine
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from tests.support.mig_cards import CARDS, MigHost
from tests.support.mig_fixtures import host, mechanism, mig_library

__all__ = ["host", "mechanism", "mig_library"]

PROFILES = {one.name: one for one in list_mig_profiles("H200")}


def build_entry(card: str, profile: str, start: int, uid: str = "uid-1") -> Entry:
    shape: PartitionProfile = PROFILES[profile]
    slot = PartitionSlot(start, shape.size, profile)
    seat = Seat(card, shape.gpu_milli, shape.memory_bytes, slot)
    return Entry(uid, "team", "train", "main", (seat,), "team", generation=3)


def build_preparer(
    tmp_path: Path, machine: Machine, probe: object = None, *, simulated: bool = False
) -> EntryPreparer:
    arbiter = ArbiterProcess(None, lambda: 0.5)
    file = tmp_path / "simgpu" / "machine"
    found = SimulatedProbe(machine, tmp_path, file) if simulated else probe
    return EntryPreparer(tmp_path, machine, found, arbiter, JobSeat(SHOWN))


@pytest.fixture
def preparer(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> EntryPreparer:
    """Two H200 in MIG mode, on the stand-in for NVIDIA's library."""
    mechanisms = {**registry.MECHANISMS, mechanism.name: mechanism}
    monkeypatch.setattr(registry, "MECHANISMS", MappingProxyType(mechanisms))
    devices = (host.make_device(0), host.make_device(1))
    machine = Machine("n0", devices, Topology())
    return build_preparer(tmp_path, machine)


def list_starts(host: MigHost) -> list[int]:
    return sorted(one.start for one in host.driver.list_instances(CARDS[0]))


def test_a_container_gets_the_nodes_of_its_instance_and_nothing_else(
    preparer: EntryPreparer, host: MigHost
) -> None:
    prepared = preparer.prepare(build_entry(CARDS[0], "1g.18gb", 6))
    assert isinstance(prepared, PreparedAllocation)
    edits = build_device("s0001-abcd", prepared)["containerEdits"]
    nodes = [node["path"] for node in edits["deviceNodes"]]
    caps = [node for node in nodes if node.startswith("/dev/nvidia-caps/")]
    assert caps == ["/dev/nvidia-caps/nvidia-cap17", "/dev/nvidia-caps/nvidia-cap18"]
    assert "/dev/nvidia0" in nodes
    assert "/dev/nvidia1" not in nodes
    assert "CUDA_VISIBLE_DEVICES=MIG-00000000-0007-5000-8000-000000000000" in edits["env"]
    assert "NVIDIA_VISIBLE_DEVICES=void" in edits["env"]
    assert "GPUPOOL_FENCE=hard" in edits["env"]
    assert list_starts(host) == [6]


def test_what_a_container_left_is_destroyed_and_its_neighbour_stays(
    preparer: EntryPreparer, host: MigHost
) -> None:
    mine = build_entry(CARDS[0], "3g.71gb", 0)
    other = build_entry(CARDS[0], "3g.71gb", 4, "uid-2")
    for one in (mine, other, mine):
        preparer.prepare(one)
    assert list_starts(host) == [0, 4]
    assert preparer.prepared_generations() == {mine.key: 3, other.key: 3}
    for _ in range(2):
        preparer.unprepare(*mine.key)
    assert list_starts(host) == [4]
    assert preparer.prepared_generations() == {other.key: 3}


def test_a_foreign_instance_in_the_slot_keeps_the_container_waiting(
    preparer: EntryPreparer, host: MigHost
) -> None:
    host.make_foreign("1g.18gb", 6)
    entry = build_entry(CARDS[0], "1g.18gb", 6)
    with pytest.raises(RequestRejection, match="which gpupool did not make"):
        preparer.prepare(entry)
    preparer.unprepare(*entry.key)
    assert list_starts(host) == [6], "the other tool's instance stays"
    assert preparer.prepared_generations() == {}


@pytest.mark.skipif(
    find_templates() is None, reason="gpupool-native is installed without its fence"
)
def test_a_simulated_card_in_mig_mode_is_divided_by_the_fence(tmp_path: Path) -> None:
    (machine,) = parse_sim("1xH200:mig", "n0")
    (tmp_path / "simgpu").mkdir()
    preparer = build_preparer(tmp_path, machine, simulated=True)
    card = machine.devices[0].uuid
    entry = build_entry(card, "3g.71gb", 4)
    prepared = preparer.prepare(entry)
    share = (prepared.share_dir / "share.json").read_text()
    assert '"profile": "3g.71gb"' in share
    assert f'"gpu_milli": {PROFILES["3g.71gb"].gpu_milli}' in share
    crowding = Entry("uid-2", "team", "b", "main", (Seat(card, WHOLE, 1),), "team")
    with pytest.raises(CardNotReady, match="is still held by team/train/main"):
        preparer.prepare(crowding)
    preparer.unprepare(*entry.key)
    assert preparer.prepared_generations() == {}


def test_an_agent_publishes_what_cards_in_mig_mode_can_be_cut_into() -> None:
    (machine,) = parse_sim("1xH200+1xH200:mig", "n0")
    plain, cut = build_status(machine.devices, Topology(), (), (), 512, 1, labels={})["cards"]
    assert "profiles" not in plain
    assert [one["name"] for one in cut["profiles"]] == list(PROFILES)
