"""What every mechanism must keep, run on every mechanism of the registry.

Calls that are killed on the way: tests/contract/test_kills.py.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import NotFound, RequestRejection, StaleGeneration
from gpupool.mechanisms import registry
from gpupool.mechanisms.contract import (
    AllocationView,
    GrantedDevice,
    JobSeat,
    Mechanism,
    PreparationStep,
)
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.pci.handover import CardHandover
from gpupool.mechanisms.registry import MECHANISMS, choose_mechanism, find_on_record
from gpupool.probes.simulated import parse_sim
from tests.support.mps_host import build_automatic, describe_share

#: Those for virtual machines need hardware: tests/contract/test_handover_mechanisms.py. Partitions of
#: real cards have the same rules on a stand-in for the driver: tests/contract/test_mig.py.
SIMULATED = sorted(
    name for name, one in MECHANISMS.items() if name != "mig" and not isinstance(one, CardHandover)
)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short path: a socket's may have 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="gp") as path:
        yield Path(path)


@pytest.fixture(params=SIMULATED)
def mechanism(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mechanism]:
    if request.param == "fence" and (
        find_templates() is None or find_simulated_libraries() is None
    ):
        pytest.skip("gpupool-native is installed without its fence libraries")
    if request.param == "mps":
        # No card here has MPS: its daemons and compute modes are files of a host that plays one.
        with tempfile.TemporaryDirectory(prefix="mps") as host:
            mps = build_automatic(Path(host))
            monkeypatch.setattr(registry, "MECHANISMS", {**MECHANISMS, "mps": mps})
            yield mps
    else:
        yield MECHANISMS[request.param]


@pytest.fixture
def view(mechanism: Mechanism) -> AllocationView:
    """An allocation this mechanism serves and, where several do, prefers."""
    return next(v for v in views() if choose_mechanism(v) is mechanism)


def views() -> Iterator[AllocationView]:
    devices = parse_sim("4xL40S")[0].devices
    seat = JobSeat(uid=os.getuid(), gid=os.getgid(), own_pool=os.getuid() != 0)
    one = AllocationView(
        "pool", "al-1", 5, "job-1", "team", "fixed", (), devices, seat, machine=Path("/sim")
    )
    yield replace(one, granted=(GrantedDevice(devices[2], 1000, devices[2].memory_bytes),))
    yield replace(one, granted=(GrantedDevice(devices[1], 300, 8 << 30),))
    yield replace(one, granted=(GrantedDevice(devices[1], 300, 8 << 30),), fence=False)
    yield replace(one, machine=None)
    yield describe_share()


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a directory, with contents; where these name the directory itself, they do
    so in one way."""
    own = os.fsencode(folder)
    return {
        str(p.relative_to(folder)): p.read_bytes().replace(own, b"*" * len(own))
        if p.is_file()
        else None
        for p in sorted(folder.rglob("*"))
    }


def left(folder: Path) -> set[str]:
    """What is there but for libraries, which are made once for a driver and stay."""
    return {name for name in tree(folder) if name.split("/")[0] != "fence"}


def test_preparing_twice_is_preparing_once(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    first = mechanism.prepare(view, tmp_path)
    before = tree(tmp_path)
    assert mechanism.prepare(view, tmp_path) == first
    assert tree(tmp_path) == before


def test_what_was_prepared_is_observed(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    mechanism.prepare(view, tmp_path)
    (seen,) = mechanism.observe(tmp_path).values()
    assert (seen.allocation, seen.generation, seen.step, seen.problem) == (
        "al-1",
        5,
        PreparationStep.PREPARED,
        "",
    )


def test_a_foreign_change_is_observed_and_preparing_again_mends_it(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    prepared = mechanism.prepare(view, tmp_path)
    before = tree(tmp_path)
    for path in [p for p in prepared.share_dir.rglob("*") if p.is_file()]:
        path.write_text("{}")
    assert mechanism.observe(tmp_path)["al-1"].problem != ""
    mechanism.prepare(view, tmp_path)
    assert mechanism.observe(tmp_path)["al-1"].problem == ""
    assert tree(tmp_path) == before


def test_undoing_leaves_nothing_and_undoing_again_is_well(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    mechanism.prepare(view, tmp_path)
    for _ in range(2):
        mechanism.unprepare("al-1", 5, tmp_path)
        assert mechanism.observe(tmp_path) == {}
    assert left(tmp_path) - {"prepared"} == set(before)


def test_undoing_what_was_never_prepared_is_well(mechanism: Mechanism, tmp_path: Path) -> None:
    mechanism.unprepare("al-unheard-of", 1, tmp_path)
    assert mechanism.observe(tmp_path) == {}


def test_undoing_one_allocation_leaves_the_others(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    mechanism.prepare(view, tmp_path)
    before = tree(tmp_path)
    mechanism.prepare(replace(view, allocation="al-2"), tmp_path)
    mechanism.unprepare("al-2", 5, tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("verb", ["prepare", "unprepare"])
def test_a_call_with_an_older_generation_is_refused_and_changes_nothing(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path, verb: str
) -> None:
    mechanism.prepare(view, tmp_path)
    before = tree(tmp_path)
    late: dict[str, Callable[[], object]] = {
        "prepare": lambda: mechanism.prepare(replace(view, generation=4), tmp_path),
        "unprepare": lambda: mechanism.unprepare("al-1", 4, tmp_path),
    }
    with pytest.raises(StaleGeneration, match="generation 4"):
        late[verb]()
    assert tree(tmp_path) == before


def test_a_younger_generation_takes_over(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    mechanism.prepare(view, tmp_path)
    mechanism.prepare(replace(view, generation=6), tmp_path)
    assert mechanism.observe(tmp_path)["al-1"].generation == 6
    mechanism.unprepare("al-1", 7, tmp_path)
    assert mechanism.observe(tmp_path) == {}


def test_the_mechanism_on_record_is_the_one_that_prepared(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    assert find_on_record("al-1", tmp_path) is None
    mechanism.prepare(view, tmp_path)
    assert find_on_record("al-1", tmp_path) is mechanism


def test_a_mechanism_never_touches_what_another_prepared(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    mechanism.prepare(view, tmp_path)
    before = tree(tmp_path)
    for other in (m for m in MECHANISMS.values() if m.name != mechanism.name):
        other.unprepare("al-1", 9, tmp_path)
        assert other.observe(tmp_path) == {}
        if not other.explain_refusal(view):
            with pytest.raises(
                RequestRejection, match=f"prepared on this node by {mechanism.name}"
            ):
                other.prepare(view, tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["../../etc", "", ".", "a/b", "a\0b"])
def test_an_allocation_is_never_a_path_to_somewhere_else(
    mechanism: Mechanism, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match="not an allocation id"):
        mechanism.unprepare(name, 1, tmp_path)


def test_every_answer_carries_the_same_fence_level(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    prepared = mechanism.prepare(view, tmp_path)
    told = json.loads((prepared.share_dir / "share.json").read_text())
    assert prepared.fence == told["fence"]
    assert mechanism.read_enforcement("al-1", tmp_path) == (prepared.fence, told["fence_why"])


def test_what_a_job_is_shown_can_be_read_but_not_written_by_others(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    old = os.umask(0o077)
    try:
        share = mechanism.prepare(view, tmp_path).share_dir
    finally:
        os.umask(old)
    assert (share.stat().st_mode & 0o777, (share / "share.json").stat().st_mode & 0o777) == (
        0o755,
        0o644,
    )


def resized(view: AllocationView) -> AllocationView:
    """The same allocation, later, with another size."""
    granted = tuple(replace(one, gpu_milli=450, memory_bytes=3 << 30) for one in view.granted)
    return replace(view, generation=view.generation + 1, granted=granted)


def test_another_size_is_in_the_share_file_and_twice_is_once(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    if not view.granted:
        pytest.skip("a claim without a card has no size")
    prepared = mechanism.prepare(view, tmp_path)
    mechanism.resize(resized(view), tmp_path)
    before = tree(tmp_path)
    mechanism.resize(resized(view), tmp_path)
    assert tree(tmp_path) == before
    told = json.loads((prepared.share_dir / "share.json").read_text())
    assert (
        told["generation"],
        told["devices"][0]["gpu_milli"],
        told["devices"][0]["memory_bytes"],
    ) == (
        6,
        450,
        3 << 30,
    )
    (seen,) = mechanism.observe(tmp_path).values()
    assert (seen.generation, seen.step, seen.problem) == (6, PreparationStep.PREPARED, "")
    mechanism.unprepare("al-1", 6, tmp_path)
    assert left(tmp_path) == left_by_nobody(mechanism, view, tmp_path)


def left_by_nobody(mechanism: Mechanism, view: AllocationView, folder: Path) -> set[str]:
    """What a mechanism's own life leaves without any resize."""
    mechanism.prepare(view, folder)
    mechanism.unprepare("al-1", 6, folder)
    return left(folder)


def test_an_older_size_is_refused_and_changes_nothing(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    mechanism.prepare(replace(view, generation=6), tmp_path)
    before = tree(tmp_path)
    with pytest.raises(StaleGeneration):
        mechanism.resize(view, tmp_path)
    assert tree(tmp_path) == before


def test_what_is_not_prepared_cannot_be_resized(
    mechanism: Mechanism, view: AllocationView, tmp_path: Path
) -> None:
    with pytest.raises(NotFound):
        mechanism.resize(resized(view), tmp_path)
