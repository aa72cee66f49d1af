"""The file of a simulated node's memory limits; what the driver makes of it is tested in
tests/unit/native/test_simgpu_limits.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.probes.memory_limits import MemoryLimit, SimulatedLimits
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from tests.support.job_cgroups import open_pool_group

GIB = 1 << 30

pytestmark = pytest.mark.root


@pytest.fixture
def pool() -> Iterator[Path]:
    with open_pool_group() as group:
        yield group


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create_machine(tmp_path / "machine", parse_sim("2xT4")[0])
    return tmp_path


@pytest.fixture
def uuids(folder: Path) -> list[str]:
    with SimulatedMachine(folder / "machine") as machine:
        return [card.uuid for card in machine.cards]


def test_limits_of_cards_and_cgroups_are_apart(folder: Path, pool: Path, uuids: list[str]) -> None:
    limits = SimulatedLimits(folder)
    one, two = pool / "one", pool / "two"
    one.mkdir()
    two.mkdir()
    assert limits.set_limit(uuids[0], one, MemoryLimit(0, GIB)) == ""
    assert limits.set_limit(uuids[1], one, MemoryLimit(0, 2 * GIB)) == ""
    assert limits.set_limit(uuids[0], two, MemoryLimit(0, 3 * GIB)) == ""
    assert limits.set_limit(uuids[0], one, MemoryLimit(0, 4 * GIB)) == ""
    read = [limits.read_limit(uuid, group) for group in (one, two) for uuid in uuids]
    assert read == [
        MemoryLimit(0, 4 * GIB),
        MemoryLimit(0, 2 * GIB),
        MemoryLimit(0, 3 * GIB),
        MemoryLimit(),
    ]


def test_a_limit_goes_also_when_its_cgroup_is_gone(
    folder: Path, pool: Path, uuids: list[str]
) -> None:
    limits = SimulatedLimits(folder)
    group = pool / "job"
    group.mkdir()
    limits.set_limit(uuids[0], group, MemoryLimit(0, GIB))
    group.rmdir()
    assert limits.read_limit(uuids[0], group) is None
    assert limits.clear_limit(uuids[0], group) == ""
    group.mkdir()
    assert limits.read_limit(uuids[0], group) == MemoryLimit()


def test_what_is_no_cgroup_is_refused(folder: Path, pool: Path, uuids: list[str]) -> None:
    limits = SimulatedLimits(folder)
    limit = MemoryLimit(0, GIB)
    assert limits.set_limit(uuids[0], pool / "gone", limit) == f"there is no cgroup {pool}/gone"
    assert "is not a cgroup" in limits.set_limit(uuids[0], folder, limit)
    assert "is not a cgroup" in limits.set_limit(uuids[0], pool.parent, limit)


def test_a_damaged_machine_is_unreadable_and_no_error(
    folder: Path, pool: Path, uuids: list[str]
) -> None:
    limits = SimulatedLimits(folder)
    limits.set_limit(uuids[0], pool, MemoryLimit(0, GIB))
    (folder / "machine").write_bytes(b"torn")
    assert limits.read_limit(uuids[0], pool) is None


def test_a_node_without_the_cards_file_has_no_limits(tmp_path: Path) -> None:
    assert SimulatedLimits(tmp_path).explain_absence() != ""
