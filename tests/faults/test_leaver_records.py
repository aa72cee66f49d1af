"""A server that is killed at a commit of what it records of leavers and of promised starts.

After the next start each job has one owner, and each count and event is there once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache.start_moves import EVENT
from gpupool.allocations.handover.leaver_rows import list_leavers
from gpupool.allocations.store.hold_tables import broken_promises, promises
from gpupool.base.clock import LedgerClock
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.signon.admission import AdmissionFacts, AdmissionRefusal, admit_person
from gpupool.signon.leaver_facts import LeaverChoice
from gpupool.signon.rules import ExternalPerson
from gpupool.signon.tables import identities
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.faults import STEPS, Fault
from gpupool.store.tables import pool as pool_row
from gpupool.tenancy.tables import users
from gpupool.wire.leavers.policies import LeaverPolicyIn, LeaverRowOut
from tests.faults.child_server import Kill, die
from tests.support.house import House
from tests.support.metering_books import HOUR, Time
from tests.unit.allocations.cache.test_start_moves import moves_of
from tests.unit.allocations.handover.conftest import HandoverHouse
from tests.unit.allocations.handover.test_service import run
from tests.unit.allocations.handover.test_settlement import leave

PERSON = ExternalPerson("idp", "https://idp.example", "s-1", "ann")


def reopen_house(directory: Path) -> HandoverHouse:
    """A server that starts at the instant of the last commit."""
    engine = connect(sqlite_url(directory / "house.db"))
    time = Time()
    with engine.connect() as connection:
        time.wall_ns = connection.execute(sa.select(pool_row.c.ledger_ns)).scalar_one()
    clock = LedgerClock(time.wall_ns, wall=lambda: time.wall_ns, boot=lambda: time.boot_ns)
    store = Store(engine, clock)
    store.take("again")
    house = HandoverHouse.reopen(store)
    house.time = time
    return house


def read_leaver(house: HandoverHouse) -> LeaverRowOut:
    (row,) = list_leavers(house.store, house.admin, everything=True).items
    return row


@pytest.mark.sampled(18)
@pytest.mark.parametrize(
    ("act", "number"), [("hand-over", n) for n in range(1, 5)] + [("stop", n) for n in range(1, 6)]
)
@pytest.mark.parametrize("step", STEPS)
def test_a_leaver_is_settled_once(tmp_path: Path, step: str, act: str, number: int) -> None:
    def settle_leaver(fault: Fault) -> None:
        house = HandoverHouse(tmp_path)
        run(house, "train")
        run(house, "other")
        house.submit(1000, 8, name="later", principal=house.ann)
        heir = "bob" if act == "hand-over" else None
        leave(house, LeaverChoice(act, heir=heir), 3600)  # type: ignore[arg-type]
        house.pass_hours(2)
        with house.store.write():
            pass
        house.store._fault = fault
        house.allocations.leavers.settle()

    die(settle_leaver, Kill(step, number))
    house = reopen_house(tmp_path)
    house.allocations.leavers.settle()
    house.allocations.leavers.settle()
    row = read_leaver(house)
    counts = (0, 3) if act == "hand-over" else (3, 0)
    assert (row.state, row.stopped, row.handed) == ("done", *counts)
    (told,) = house.list_events("leaver.settled")
    assert (told["stopped"], told["handed"]) == counts
    moved = [one["name"] for one in house.list_events("job.handed-over")]
    assert sorted(moved) == (["later", "other", "train"] if act == "hand-over" else [])
    assert len(house.list_acts("handover: job")) == len(moved)
    house.pass_hours(1)
    hours = {"ann": 4.0, "bob": 2.0} if act == "hand-over" else {"ann": 6.0}
    assert house.gpu_seconds() == {name: 3600 * spent for name, spent in hours.items()}
    if act == "stop":
        assert house.job("later").state == "stopped"
        assert {item.job for item in house.work() if item.want == "stop"} == {
            house.job(name).id for name in ("train", "other")
        }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", STEPS)
def test_rights_end_in_the_commit_that_records_a_leaver(tmp_path: Path, step: str) -> None:
    def lose_groups(house: HandoverHouse) -> AdmissionRefusal:
        facts: Any = AdmissionFacts(None, None, house.allocations.leavers)  # type: ignore[arg-type]
        with house.store.write() as write:
            refusal = admit_person(write, facts, PERSON, [])
        assert isinstance(refusal, AdmissionRefusal)
        return refusal

    def login(fault: Fault) -> None:
        house = HandoverHouse(tmp_path)
        body = LeaverPolicyIn.model_validate({"act": "stop"})
        house.allocations.leaver_policies.put_policy(house.admin, body)
        run(house, "train")
        with house.store.write() as write:
            write.insert(
                identities,
                user_id=house.ann.user_id,
                provider=PERSON.provider,
                issuer=PERSON.issuer,
                subject=PERSON.subject,
                groups=["research"],
                created_ns=1,
                seen_ns=1,
            )
        house.store._fault = fault
        lose_groups(house)

    die(login, Kill(step))
    house = reopen_house(tmp_path)
    is_disabled = sa.select(users.c.disabled_ns.is_not(None)).where(users.c.name == "ann")
    with house.store.read() as connection:
        has_left = connection.execute(is_disabled).scalar_one()
    assert has_left == (step == "after-commit")
    assert len(list_leavers(house.store, house.admin, everything=True).items) == int(has_left)
    begun_ns = house.store.clock.now_ns()
    lose_groups(house)
    row = read_leaver(house)
    assert (row.state, row.due_ns) == ("open", begun_ns + HOUR * NANOS_PER_SECOND)
    house.pass_hours(0.9)
    house.allocations.leavers.settle()
    assert read_leaver(house).stopped == 0
    house.pass_hours(0.2)
    house.allocations.leavers.settle()
    assert (read_leaver(house).state, read_leaver(house).stopped) == ("done", 1)
    changed = [one for one in house.list_events("user.changed") if "reason" in one]
    assert len(changed) == 1


# Promised starts --------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("step", STEPS)
def test_a_broken_promise_that_is_made_anew_is_one_event(tmp_path: Path, step: str) -> None:
    def break_promise(fault: Fault) -> None:
        house = House(tmp_path)
        house.submit(1000, None, name="holder", count=2, max_seconds=3600)
        house.submit(1000, None, name="next", count=2, max_seconds=60)
        house.allocations.placer.run_cycle()
        # The instant of its notice has passed.
        with house.store.write() as write:
            write.execute(sa.update(promises).values(at_ns=1, notice_ns=1))
        house.restart()
        house.store._fault = fault
        for _ in range(3):
            house.allocations.placer.run_cycle()

    die(break_promise, Kill(step, 1, EVENT))
    house = House.reopen(open_store(connect(sqlite_url(tmp_path / "house.db")), "again"))
    for _ in range(3):
        house.allocations.placer.run_cycle()
    (move,) = moves_of(house)
    assert move["name"] == "next"
    with house.store.read() as connection:
        assert connection.execute(sa.select(promises.c.claim)).scalars().all() == [move["job"]]
        assert connection.execute(sa.select(broken_promises)).all() == []
    house.store.close()
