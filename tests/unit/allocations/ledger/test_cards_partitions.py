"""Partitions in the ledger: asked for by name, granted as pieces of a card, given back, refused
with the way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.allocations.ledger import grants
from gpupool.allocations.store.tables import seats
from gpupool.base.errors import (
    BadOption,
    GpupoolError,
    RequestRejection,
    StaleGeneration,
    StillInUse,
    UnknownProfile,
)
from gpupool.base.units import GIB
from gpupool.fleet.tables import devices
from gpupool.model.partition import (
    ForeignPiece,
    PartitionSlot,
    is_valid_set,
    read_partition_slots,
    write_foreign_pieces,
    write_profiles,
)
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering.feasibility import count_free_slots
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.wire.fleet import DeviceIn, NodeIn
from gpupool.wire.jobs import JobOut
from gpupool.wire.reservations import ReservationIn
from gpupool.wire.submissions import GroupIn, RoleIn, ShapeIn
from tests.support.house import House

H200 = list_mig_profiles("H200")


def register(
    house: House, modes: list[bool], profiles: bool = True, foreign: Sequence[ForeignPiece] = ()
) -> None:
    """Register the node; what is foreign is on its first card."""
    cut = {"partitioned": True, "profiles": write_profiles(H200) if profiles else []}
    others = {"foreign": write_foreign_pieces(foreign)} if foreign else {}
    machine = [
        DeviceIn(
            uuid=f"GPU-node-1-{n}",
            index=n,
            vendor="nvidia",
            product="NVIDIA H200",
            model="H200",
            memory_bytes=140 * GIB + 400 * (1 << 20),
            simulated=True,
            health="ok",
            facts=(cut if mode else {}) | (others if n == 0 else {}),
        )
        for n, mode in enumerate(modes)
    ]
    house.fleet.register_node(
        "node-1", NodeIn(devices=machine, simulated=True, adopt=True), house.admin
    )


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path, cards=0)
    register(house, [True, True, False])
    return house


def part(house: House, profile: str, **options: object) -> JobOut:
    return house.submit(0, None, profile=profile, **options)


def run(house: House) -> None:
    while house.allocations.placer.run_cycle().more:
        pass


def end(house: House, name: str) -> None:
    (item,) = [item for item in house.work() if item.job_name == name]
    house.report(item, "running")
    house.report(item, "ended", exit_code=0)


def pieces(house: House) -> dict[str, list[tuple[int, str]]]:
    with house.store.read() as connection:
        rows = connection.execute(sa.select(devices.c.uuid, devices.c.pieces)).all()
    return {
        row.uuid: [(one.start, one.profile) for one in read_partition_slots(row.pieces)]
        for row in rows
    }


def test_a_partition_is_granted_as_a_piece_and_says_so_everywhere(house: House) -> None:
    part(house, "1g", name="a")
    run(house)
    job = house.job("a")
    assert job.share == "1g.18gb: 0.142 GPU (14.2 % compute) + 16384 MiB"
    assert [(seat.profile, seat.start) for seat in job.seats] == [("1g.18gb", 6)]
    assert [seat.profile for seat in house.work()[0].seats] == ["1g.18gb"]
    assert pieces(house) == {
        "GPU-node-1-0": [(6, "1g.18gb")],
        "GPU-node-1-1": [],
        "GPU-node-1-2": [],
    }
    card = house.fleet.get_device("node-1:0", house.admin)
    assert (card.mix, card.largest_milli, card.fits["4g.71gb"], card.fits["7g.141gb"]) == (
        "1g.18gb",
        0,
        1,
        0,
    )


def test_what_is_given_back_can_be_cut_anew_also_for_whoever_waits(house: House) -> None:
    for n in range(2):
        part(house, "7g", name=f"big-{n}")
    part(house, "3g", name="waits")
    run(house)
    assert house.job("waits").state == "pending"
    assert "no free place for it" in house.job("waits").reason
    end(house, "big-0")
    run(house)
    assert house.job("waits").state == "starting"
    assert pieces(house)["GPU-node-1-0"] == [(4, "3g.71gb")]


def test_memory_and_a_fresh_reading_of_the_ledger_say_the_same(house: House) -> None:
    for n, name in enumerate(("1g", "2g", "1g", "3g")):
        part(house, name, name=f"j{n}")
    run(house)
    end(house, "j0")
    run(house)
    known = house.allocations.cache.build_snapshot()
    house.allocations.placer.load()
    assert house.allocations.cache.build_snapshot().cards.layouts == known.cards.layouts
    for cut in known.cards.layouts.values():
        assert is_valid_set(cut.profiles, cut.slots)
    free = FreeCapacity(known.cards)
    assert count_free_slots(free, 0, "1g.18gb") + count_free_slots(free, 1, "1g.18gb") > 0


def test_the_ledger_itself_refuses_a_piece_that_lies_over_another(house: House) -> None:
    """Whatever a plan says and whichever generation it names: the geometry is looked at where it is
    written."""
    for name, profile in (("x", "7g"), ("y", "7g"), ("a", "3g"), ("b", "3g")):
        part(house, profile, name=name)
        run(house)
    for name in ("x", "y"):
        end(house, name)
    snapshot = house.allocations.cache.build_snapshot()
    first, second = cycle(snapshot, 1).placements
    over = replace(second, seats=first.seats)
    with (
        pytest.raises(StaleGeneration, match="cannot be cut as was planned"),
        house.store.write() as write,
    ):
        grants.write_grants(write, house.metering, [first, over])
    assert pieces(house)["GPU-node-1-0"] == []
    with house.store.read() as connection:  # the two that have ended
        assert connection.execute(sa.select(sa.func.count()).select_from(seats)).scalar() == 2


def test_a_gangs_roles_may_be_partitions(house: House) -> None:
    role = RoleIn(name="worker", count=3, shape=ShapeIn(profile="3g"))
    house.submit(
        500,
        None,
        name="gang",
        gang=GroupIn(name="gang", parts=[RoleIn(name="head", count=1), role]),
    )
    run(house)
    assert {house.job(f"gang.{n}").state for n in range(3)} == {"starting"}
    assert sum(len(one) for one in pieces(house).values()) == 3


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda house: part(house, "1g.19gb"), UnknownProfile, "can be cut into '1g.19gb'"),
        (lambda house: part(house, "1g", model="T4"), UnknownProfile, "no T4 cards of this pool"),
        (
            lambda house: house.submit(300, None, profile="1g"),
            BadOption,
            "compute and memory of its profile",
        ),
        (
            lambda house: part(house, "1g", sharing="burst"),
            BadOption,
            "compute and memory of its profile",
        ),
        (lambda house: part(house, "1g", fence=False), BadOption, "never handed out unfenced"),
        (lambda house: part(house, "1g", count=3), RequestRejection, "3"),
    ],
)
def test_what_makes_no_sense_is_refused(
    house: House, ask: Callable[[House], object], error: type[GpupoolError], says: str
) -> None:
    with pytest.raises(error, match=says):
        ask(house)


def test_a_partition_cannot_be_reserved_and_not_be_resized(house: House) -> None:
    body = ReservationIn(name="later", shape=ShapeIn(profile="1g"), start_ns=1)
    with pytest.raises(BadOption, match="a reservation holds cards and shares, no partitions"):
        house.allocations.reservations.create_reservation(body, house.admin)


def test_cards_whose_pieces_nobody_can_make_take_nothing_at_all(tmp_path: Path) -> None:
    """A real card in MIG mode publishes no profiles: it is neither shared nor handed out whole, nor
    cut."""
    house = House(tmp_path, cards=0)
    register(house, [True], profiles=False)
    with pytest.raises(UnknownProfile, match="no cards of this pool can be cut into partitions"):
        part(house, "1g.18gb")
    with pytest.raises(RequestRejection, match="is in partition mode"):
        house.submit(300, None)


def test_a_card_does_not_change_its_mode_under_its_jobs(house: House) -> None:
    part(house, "1g", name="a")
    run(house)
    with pytest.raises(
        StillInUse, match=r"is in partition mode .* and now takes shares, while 1 shares are on it"
    ):
        register(house, [False, True, False])
    end(house, "a")
    register(house, [False, True, False])
    assert list(house.allocations.cache.build_snapshot().cards.layouts)


#: Made by another tool: the upper half of a card, and a daemon.
HALF = ForeignPiece(
    "an instance that gpupool did not create (3g.71gb, GPU instance 1)",
    PartitionSlot(4, 4, "3g.71gb"),
)
DAEMON = ForeignPiece("an MPS process that gpupool did not start (pid 9)")


def test_no_partition_is_placed_on_a_foreign_one(tmp_path: Path) -> None:
    house = House(tmp_path, cards=0)
    register(house, [True], foreign=[HALF, DAEMON])
    for name in ("first", "second"):
        part(house, "3g.71gb", name=name)
    run(house)
    assert [seat.start for seat in house.job("first").seats] == [0]
    assert not house.job("second").seats
    answer = house.allocations.jobs.explain_job("second", house.admin)
    assert (
        "node-1:0: slot 4 to 7: an instance that gpupool did not create (3g.71gb, GPU instance 1)"
        in answer.hints
    )
    # The answer to a commit corrects the cache; the foreign slot stays taken there too.
    card = house.fleet.get_device("node-1:0", house.admin)
    assert card.mix == "3g.71gb"
    assert card.fits["3g.71gb"] == 0
    end(house, "first")
    run(house)
    assert [seat.start for seat in house.job("second").seats] == [0]


def test_a_foreign_partition_that_is_gone_frees_its_slot(tmp_path: Path) -> None:
    house = House(tmp_path, cards=0)
    register(house, [True], foreign=[HALF])
    jobs = [part(house, "3g.71gb"), part(house, "3g.71gb")]
    run(house)
    assert [len(house.job(job.name).seats) for job in jobs].count(1) == 1
    register(house, [True])
    run(house)
    assert sorted(house.job(job.name).seats[0].start or 0 for job in jobs) == [0, 4]


def test_a_foreign_partition_of_an_unknown_profile_takes_its_slot(tmp_path: Path) -> None:
    house = House(tmp_path, cards=0)
    odd = ForeignPiece("an instance", PartitionSlot(0, 2, "profile 99"))
    register(house, [True], foreign=[odd])
    job = part(house, "1g.18gb")
    run(house)
    (seat,) = house.job(job.name).seats
    assert seat.start is not None
    assert seat.start >= 2
