"""A pool of thousands of simulated cards with a long past, on the real rooms and a real SQLite
file.

Cards, tenants and users come in through the rooms' own doors; the past is written in bulk, because
a hundred thousand jobs one by one would take an hour. What the rooms keep twice (a card's use, a
tenant's holdings, open intervals) is written as they would have, so that everything measured here
works on a ledger that could have come about.

The mix at every size: of ten jobs eight have ended, one runs and one waits, and those that live are
the oldest of each growth, so that whoever looks for them by walking back over the past walks all of
it. What waits stands in ten classes (five tenants, two shapes each); it asks for a label whose only
node is full. Four of the five tenants have used up their quota as well. The jobs of the first
tenant, which submits here, are a fifth of all.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.agent.facts import describe_node
from gpupool.allocations.store.tables import allocations, claims, jobs, launches, seats
from gpupool.base.units import GIB, MIB, WHOLE
from gpupool.fleet.tables import devices, nodes
from gpupool.mechanisms.offers.host_facts import read_host_facts
from gpupool.metering.tables import intervals
from gpupool.model.tenant import Principal, UserRole
from gpupool.probes.simulated import parse_sim
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.server.compose import compose_services
from gpupool.server.config import ServiceSet
from gpupool.server.migrate import prepare_database
from gpupool.store.database import connect, open_store, sqlite_url
from gpupool.store.tables import events, pool
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.tables import projects, tenants
from gpupool.wire.fleet import ReportIn, ReportsIn, WorkOut
from gpupool.wire.people import QuotaIn, UserIn
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn

AGENT = "sim-0"
TENANTS = 5
ZONE = {"zone": "west"}
"""The label that the first node alone carries; its cards are held from the start."""
RUNNING_MILLI, RUNNING_BYTES = 100, 4 * GIB
EVENTS_PER_JOB = 4
_NS = 10**9


@dataclass(frozen=True)
class LargePool:
    """The rooms, a member of the first tenant, and how the past goes on."""

    services: ServiceSet
    admin: Principal
    member: Principal
    owners: tuple[dict[str, int], ...]
    """Of each tenant: the keys that its jobs carry."""
    card_ids: tuple[int, ...]
    boards: list[PlanningState] = field(default_factory=list)
    """The one that lives on from plan to plan, once there is one."""

    @property
    def engine(self) -> sa.Engine:
        return self.services.store.engine

    def past(self) -> int:
        """How many jobs of the mix there are."""
        with self.engine.connect() as connection:
            count = sa.select(sa.func.count()).where(jobs.c.name.startswith("train-"))
            return connection.execute(count).scalar_one()

    def grow_to(self, total: int) -> None:
        """Add jobs of the mix until there are so many, then read the ledger anew."""
        first = self.past()
        with self.engine.begin() as connection:
            _write_past(connection, self, range(first, total))
        self.services.allocations.placer.load()

    def board(self, snapshot: Snapshot) -> PlanningState:
        """As the placer keeps one."""
        if not self.boards:
            self.boards.append(PlanningState(snapshot))
        return self.boards[0]

    def start_one(self) -> None:
        """Submit a claim that fits, 0.30 of a card with 8 GiB, and have it placed."""
        body = JobIn(
            shape=ShapeIn(gpu_milli=300, memory_bytes=8 * GIB), launch=LaunchIn(argv=["true"])
        )
        placed = self.services.allocations.jobs.submit_job(body, self.member, None).first
        assert placed.state == "starting", placed

    def newest(self) -> WorkOut:
        """What the agent was last told to do."""
        with self.engine.connect() as connection:
            generation = connection.execute(sa.select(pool.c.generation)).scalar_one()
        return self.services.allocations.agents.read_work(AGENT, generation - 1).work[-1]

    def end(self, work: WorkOut) -> None:
        """The agent tells that the command ended well."""
        report = ReportIn(
            allocation=work.allocation, generation=work.generation, state="ended", exit_code=0
        )
        assert (
            self.services.allocations.agents.apply_reports(AGENT, ReportsIn(reports=[report])).stale
            == []
        )


@contextmanager
def large_pool(directory: Path, spec: str = "1250x8xH200") -> Iterator[LargePool]:
    """A pool of these simulated cards without jobs; nothing is placed but by a call."""
    engine = connect(sqlite_url(directory / "gpupool.db"))
    prepare_database(engine, 1, "p-large")
    services = compose_services(open_store(engine, "bench"), owner_uid=0)
    try:
        admin = services.tenancy.bootstrap()
        _register(services, spec, admin)
        owners = _people(services, admin)
        with engine.connect() as connection:
            card_ids = tuple(
                connection.execute(sa.select(devices.c.id).order_by(devices.c.id)).scalars()
            )
        _fill_zone(services, admin, card_ids)
        member = Principal(
            owners[0]["user_id"], "user-0", owners[0]["tenant_id"], "tenant-0", UserRole.USER
        )
        yield LargePool(services, admin, member, owners, card_ids)
    finally:
        services.allocations.close()
        engine.dispose()


def _register(services: ServiceSet, spec: str, admin: Principal) -> None:
    host = read_host_facts(own_pool=False, cgroups="none")
    for number, machine in enumerate(parse_sim(spec)):
        labels = ZONE if number == 0 else {}
        body = describe_node(machine, AGENT, labels, {}, host)
        services.fleet.register_node(machine.name, body, admin)
    services.allocations.placer.load()


def _people(services: ServiceSet, admin: Principal) -> tuple[dict[str, int], ...]:
    """Tenants with a user each. The first may hold all there is; the others what `_hold` gives
    them."""
    tenancy: TenancyService = services.tenancy
    owners = []
    for n in range(TENANTS):
        tenancy.tenants.create(admin, f"tenant-{n}", QuotaIn(nominal_milli=0) if n else None)
        tenancy.users.create(admin, UserIn(name=f"user-{n}", tenant=f"tenant-{n}", role="user"))
        with services.store.read() as connection:
            tenant = connection.execute(
                sa.select(tenants).where(tenants.c.name == f"tenant-{n}")
            ).one()
            project = connection.execute(
                sa.select(projects.c.id).where(projects.c.tenant_id == tenant.id)
            ).scalar_one()
            user = connection.execute(
                sa.text("SELECT id FROM users WHERE name = :name"), {"name": f"user-{n}"}
            ).scalar_one()
        owners.append({"tenant_id": tenant.id, "project_id": project, "user_id": user})
    return tuple(owners)


def _fill_zone(services: ServiceSet, admin: Principal, card_ids: Sequence[int]) -> None:
    """One job holds every card of the labelled node."""
    count = 8 if len(card_ids) >= 8 else len(card_ids)
    shape = ShapeIn(gpu_milli=WHOLE, memory_bytes=None, count=count, labels=ZONE)
    body = JobIn(shape=shape, launch=LaunchIn(argv=["true"], cwd="/"), name="zone-filler")
    placed = services.allocations.jobs.submit_job(body, admin, None).first
    assert placed.state == "starting", placed


def _write_past(connection: sa.Connection, large: LargePool, numbers: range) -> None:
    state = connection.execute(sa.select(pool)).one()
    past = _Past(large, state.ledger_ns, numbers)
    for table, rows in past.rows().items():
        if rows:
            connection.execute(table.insert(), rows)
    last = state.event_seq + EVENTS_PER_JOB * len(numbers)
    log = [
        past.event(state.event_seq + 1 + n, numbers[n // EVENTS_PER_JOB])
        for n in range(last - state.event_seq)
    ]
    connection.execute(events.insert(), log)
    connection.execute(pool.update().values(event_seq=last))
    _hold(connection)


def _hold(connection: sa.Connection) -> None:
    """Let cards and tenants say what their seats add up to; a tenant's quota is exactly what it
    holds."""
    held = "SELECT {} FROM seats s JOIN allocations a ON a.id = s.allocation_id {} WHERE a.state <> 'released' AND {}"
    card = {"milli": "sum(s.gpu_milli)", "bytes": "sum(s.memory_bytes)", "shares": "count(*)"}
    part = {
        name: held.format(f"coalesce({what}, 0)", "", "s.device_id = devices.id")
        for name, what in card.items()
    }
    connection.execute(
        sa.text(
            f"UPDATE devices SET used_milli = ({part['milli']}), used_bytes = ({part['bytes']}),"
            f" shares = ({part['shares']}), generation = generation + 1"
        )
    )
    mine = {
        name: held.format(
            f"coalesce({what}, 0)", "JOIN jobs j ON j.id = a.job_id", "j.tenant_id = tenants.id"
        )
        for name, what in card.items()
    }
    connection.execute(
        sa.text(
            f"UPDATE tenants SET held_milli = ({mine['milli']}), held_memory_bytes = ({mine['bytes']})"
        )
    )
    used_up = "UPDATE tenants SET nominal_milli = held_milli WHERE name LIKE 'tenant-%' AND name <> 'tenant-0'"
    connection.execute(sa.text(used_up))


class _Past:
    """Rows of jobs number `numbers`, each as the rooms would have left it."""

    def __init__(self, large: LargePool, now_ns: int, numbers: range) -> None:
        self.large, self.now_ns, self.numbers = large, now_ns, numbers
        free = large.card_ids[8:] or large.card_ids
        self.cards = free
        with large.engine.connect() as connection:
            self.node_of: dict[int, int] = {
                row.id: row.node_id
                for row in connection.execute(sa.select(devices.c.id, devices.c.node_id))
            }
            self.base: int = (
                1
                + connection.execute(
                    sa.select(sa.func.coalesce(sa.func.max(jobs.c.id), 0))
                ).scalar_one()
            )

    def rows(self) -> dict[sa.Table, list[dict[str, Any]]]:
        made: dict[sa.Table, list[dict[str, Any]]] = {
            table: [] for table in (claims, jobs, launches, allocations, seats, intervals)
        }
        for n in self.numbers:
            made[claims].append(self.claim(n))
            made[jobs].append(self.job(n))
            if self.state(n) != "done":
                made[launches].append({"job_id": self.key(n), "spec": _SPEC})
            if self.state(n) != "pending":
                made[allocations].append(self.allocation(n))
                made[seats].append(self.seat(n))
                made[intervals].append(self.interval(n))
        return made

    def key(self, n: int) -> int:
        return self.base + n - self.numbers.start

    def state(self, n: int) -> str:
        if (n - self.numbers.start) * 5 >= len(self.numbers):
            return "done"
        return "pending" if self.place(n) % 2 else "running"

    def place(self, n: int) -> int:
        """Among the jobs of its tenant in this growth."""
        return (n - self.numbers.start) // TENANTS

    def owner(self, n: int) -> dict[str, int]:
        return self.large.owners[n % TENANTS]

    def began_ns(self, n: int) -> int:
        """Jobs came a second apart, the last of them just now; their order is that of their
        numbers."""
        return self.now_ns - (self.numbers.stop - n) * _NS

    def claim(self, n: int) -> dict[str, Any]:
        waits = self.state(n) == "pending"
        return {
            "id": self.key(n),
            "public_id": f"c-{self.key(n):010d}",
            "gpu_milli": RUNNING_MILLI,
            "memory_bytes": RUNNING_BYTES,
            "cards": 1,
            "model": None,
            "labels": ZONE if waits else {},
            "sharing": "best-effort" if waits and self.place(n) % 4 == 1 else "fixed",
            "priority": 0,
            "max_seconds": None,
            "submitted_ns": self.began_ns(n),
            **self.owner(n),
        }

    def job(self, n: int) -> dict[str, Any]:
        state = self.state(n)
        placed = None if state == "pending" else self.began_ns(n)
        return {
            "id": self.key(n),
            "public_id": f"j-{self.key(n):010d}",
            "claim_id": self.key(n),
            "name": f"train-{n}",
            "state": state,
            "attached": False,
            "command": ["python", "train.py"],
            "submitted_ns": self.began_ns(n),
            "placed_ns": placed,
            "started_ns": placed,
            "ended_ns": self.began_ns(n) + 60 * _NS if state == "done" else None,
            "exit_code": 0 if state == "done" else None,
            **self.owner(n),
        }

    def card(self, n: int) -> int:
        """Running jobs go round the cards, so that none is overfull before ten times as many run as
        there are."""
        return self.cards[(n - self.numbers.start) // 2 % len(self.cards)]

    def allocation(self, n: int) -> dict[str, Any]:
        ended = self.state(n) == "done"
        return {
            "id": self.key(n),
            "public_id": f"a-{self.key(n):010d}",
            "job_id": self.key(n),
            "claim_id": self.key(n),
            "node_id": self.node_of[self.card(n)],
            "state": "released" if ended else "prepared",
            "generation": 1,
            "work_seq": 1,
            "granted_ns": self.began_ns(n),
            "released_ns": self.began_ns(n) + 60 * _NS if ended else None,
        }

    def seat(self, n: int) -> dict[str, Any]:
        return {
            "allocation_id": self.key(n),
            "device_id": self.card(n),
            "gpu_milli": RUNNING_MILLI,
            "memory_bytes": RUNNING_BYTES,
        }

    def interval(self, n: int) -> dict[str, Any]:
        start = self.began_ns(n) // _NS
        return {
            "allocation_id": self.key(n),
            "device_id": self.card(n),
            "job_id": self.key(n),
            "gpu_milli": RUNNING_MILLI,
            "memory_mib": RUNNING_BYTES // MIB,
            "start_s": start,
            "end_s": start + 60 if self.state(n) == "done" else None,
            **self.owner(n),
        }

    def event(self, seq: int, n: int) -> dict[str, Any]:
        return {
            "seq": seq,
            "at_ns": self.began_ns(n),
            "kind": "job.submitted",
            "tenant_id": self.owner(n)["tenant_id"],
            "subject": f"j-{self.key(n):010d}",
            "data": {"name": f"train-{n}"},
        }


_SPEC = {
    "argv": ["python"],
    "cwd": "/",
    "env": {},
    "umask": 18,
    "limits": {},
    "run_as": None,
    "fence": True,
}
assert nodes.metadata is jobs.metadata
