"""Answers of a pool as the wire's own shapes write them, so that a changed shape changes the
tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpupool.base.units import format_instant
from gpupool.scheduling.reasons import help_messages
from gpupool.wire.capacity import CapacityOut, ModelRoom
from gpupool.wire.defrag import DefragOut, MoveOut, RebalanceOut, ReservedOut, SpreadOut
from gpupool.wire.fleet import DeviceOut, NodeOut, NumaOut
from gpupool.wire.jobs import (
    ExplainOut,
    GangStandOut,
    JobOut,
    JobUse,
    MemberOut,
    NumaPartOut,
    SeatOut,
    SubmittedOut,
)
from gpupool.wire.people import (
    PoolOut,
    QuotaNodeOut,
    QuotaOut,
    QuotaTreeOut,
    QuotaUseOut,
    TenantOut,
    TokenOut,
    UserOut,
    WhoamiOut,
)
from gpupool.wire.report import LiveCard, LiveJob, LiveOut, LiveTenant, ReportOut, ReportRow
from gpupool.wire.reservations import ReservationOut
from gpupool.wire.samples import CardUse, ProcessOut, ProcessUse, UsageOut
from gpupool.wire.sessions import SessionRowOut
from gpupool.wire.views.job_pages import QueuedOut
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

NOON = 1_795_262_400_000_000_000  # 2026-11-21T12:00:00Z
NOW = NOON + 125 * 10**9
GIB = 1 << 30
ABOUT = help_messages.format_start(NOON, promised=False, chance_pct=68)


def job(name: str = "train", state: str = "running", **changes: Any) -> dict[str, Any]:
    seat = SeatOut(
        device="node-1:0", uuid="GPU-1", model="H200", gpu_milli=300, memory_bytes=8 * GIB
    )
    facts: dict[str, Any] = {
        "id": "j-0000000001",
        "name": name,
        "state": state,
        "tenant": "default",
        "project": "default",
        "user": "alice",
        "gpu_milli": 300,
        "memory_bytes": 8 * GIB,
        "count": 1,
        "share": "0.30 GPU (30 % compute) + 8192 MiB",
        "node": "node-1",
        "device": "node-1:0",
        "seats": [seat],
        "why": "the fullest card that fits",
        "simulated": True,
        "command": ["python", "train.py"],
        "generation": 3,
        "submitted_ns": NOON,
        "placed_ns": NOON,
        "started_ns": NOON,
        "ended_ns": NOON + 90 * 10**9,
    }
    if state == "pending":
        facts |= {
            "node": None,
            "device": None,
            "seats": [],
            "why": "",
            "simulated": None,
            "placed_ns": None,
        }
        facts |= {"started_ns": None, "ended_ns": None, "submitted_ns": NOON + 60 * 10**9}
    elif state in ("starting", "running"):
        facts |= {"ended_ns": None, "started_ns": NOON}
        facts |= {"use": job_use()} if state == "running" else {}
    return JobOut(**{**facts, **changes}).model_dump(mode="json")


def job_use() -> JobUse:
    card = CardUse(uuid="GPU-1", used_bytes=5 * GIB, gpu_nanoseconds=8_500_000_000)
    return JobUse(
        sampled_ns=NOW,
        gpu_percent=28.9,
        share_percent=96.3,
        cpu_percent=99.0,
        memory_percent=62.5,
        memory_bytes=5 * GIB,
        reserved_bytes=5 * GIB,
        unaccounted_bytes=0,
        gpu_milliseconds=9120,
        wait_milliseconds=61_500,
        throttled_milliseconds=60_250,
        launches=40312,
        refusals=2,
        processes=[
            ProcessUse(pid=4711, cards=[card]),
            ProcessUse(pid=4712, foreign_driver=True, cards=[card]),
        ],
    )


def card(index: int = 0, **changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": f"node-1:{index}",
        "uuid": f"GPU-{index}",
        "node": "node-1",
        "index": index,
        "model": "H200",
        "product": "NVIDIA H200",
        "memory_bytes": 143771 << 20,
        "simulated": True,
        "state": "adopted",
        "health": "ok",
        "used_milli": 0,
        "used_bytes": 0,
        "free_milli": 1000,
        "free_bytes": 143771 << 20,
        "shares": 0,
        "largest_milli": 1000,
        "largest_bytes": 143771 << 20,
        "generation": 1,
    }
    return DeviceOut(**{**facts, **changes}).model_dump(mode="json")


def cards() -> list[dict[str, Any]]:
    other = ProcessOut(pid=4711, user="bob", name="python", memory_bytes=3 * GIB)
    held: dict[str, Any] = {
        "used_milli": 300,
        "used_bytes": 8 * GIB,
        "shares": 1,
        "largest_milli": 700,
    }
    real: dict[str, Any] = {
        "simulated": False,
        "state": "observed",
        "health": "warning",
        "health_reason": "XID 63",
    }
    usage = UsageOut(
        utilization_percent=42.0,
        memory_used_bytes=3 * GIB,
        power_watts=310.5,
        temperature_celsius=61.0,
    )
    return [
        card(0, **held, largest_bytes=(143771 - 8192) << 20),
        card(1, health="unknown"),
        card(2, **real, unmanaged=[other], usage=usage, model="L40S"),
    ]


def quota(**changes: Any) -> QuotaOut:
    facts: dict[str, Any] = {
        "tenant": "nlp",
        "nominal_milli": 2000,
        "borrowing_milli": 1000,
        "held_milli": 300,
        "held_memory_bytes": 8 * GIB,
        "maximum_milli": 3000,
        "maximum_memory_bytes": None,
    }
    return QuotaOut(**{**facts, **changes})


def quota_tree() -> dict[str, Any]:
    def node(kind: Any, name: str, parent: str | None, **more: Any) -> QuotaNodeOut:
        facts: dict[str, Any] = {
            "weight_milli": 1000,
            "limits": [],
            "held_milli": 0,
            "held_memory_bytes": 0,
        }
        shares: dict[str, Any] = {
            "share_percent": 0.0,
            "due_percent": 100.0,
            "past_card_hours": 0.0,
        }
        return QuotaNodeOut(kind=kind, name=name, parent=parent, **{**facts, **shares, **more})

    def use(
        resource: str, nominal: int, held: int, borrowed: int = 0, lent: int = 0
    ) -> QuotaUseOut:
        facts: dict[str, Any] = {"borrowing": None, "lending": None, "held": held}
        return QuotaUseOut(
            resource=resource, nominal=nominal, borrowed=borrowed, lent=lent, **facts
        )

    lab = [use("gpu", 12_000, 6000), use("gpu:H200", 4000, 1000)]
    nlp = [use("gpu", 4000, 6000, borrowed=2000), use("node", 1, 1)]
    tree = [
        node("pool", "", None, held_milli=7000, share_percent=43.75, past_card_hours=120.5),
        node(
            "cohort",
            "research",
            None,
            limits=lab,
            held_milli=6000,
            share_percent=37.5,
            due_percent=66.67,
        ),
        node(
            "tenant",
            "nlp",
            "research",
            limits=nlp,
            held_milli=6000,
            share_percent=37.5,
            due_percent=22.22,
        ),
        node(
            "tenant",
            "vision",
            "research",
            weight_milli=2000,
            limits=[use("gpu", 8000, 0, lent=2000)],
        ),
        node("tenant", "default", None, held_milli=1000, share_percent=6.25, due_percent=33.33),
    ]
    return QuotaTreeOut(nodes=tree).model_dump(mode="json")


def pool() -> dict[str, Any]:
    return PoolOut(
        id="p-0000000001",
        version="0.2.0",
        pid=1234,
        ready=True,
        simulated=True,
        store="sqlite",
        state_dir="/tmp/pool",
        listeners=["/tmp/pool/gpupool.sock"],
        started_ns=NOON,
        nodes=1,
        devices=3,
        jobs_live=2,
        jobs_pending=1,
        last_event=7,
        ledger_ahead_seconds=0.0,
        policy="default",
    ).model_dump(mode="json")


def report() -> dict[str, Any]:
    rows = [
        ReportRow(
            kind="tenant",
            tenant="nlp",
            card_milliseconds=5_400_000,
            memory_mib_seconds=29_491_200,
            delivered_gpu_milliseconds=4_500_000,
            kept_gpu_milliseconds=3_600_000,
            borrowed_gpu_milliseconds=900_000,
            denied_gpu_milliseconds=36_000,
            cost="5.25",
            energy_milliwatt_hours=912_345,
            measured_card_milliseconds=5_400_000,
            co2e_milligrams=676_047,
        ),
        ReportRow(
            kind="tenant",
            tenant="vision",
            card_milliseconds=900_000,
            memory_mib_seconds=3_686_400,
            cost="0.88",
        ),
        ReportRow(
            kind="idle",
            card_milliseconds=8_100_000,
            memory_mib_seconds=10_000_000,
            cost="7.87",
            energy_milliwatt_hours=160_000,
            measured_card_milliseconds=8_100_000,
            co2e_milligrams=118_560,
        ),
        ReportRow(kind="overhead", card_milliseconds=0, memory_mib_seconds=0, cost="0.00"),
        ReportRow(
            kind="unmanaged", card_milliseconds=3_600_000, memory_mib_seconds=5_000_000, cost="3.50"
        ),
    ]
    return ReportOut(
        since_ns=NOON - 3600 * 10**9,
        until_ns=NOON,
        by=["tenant"],
        capacity_card_milliseconds=18_000_000,
        capacity_memory_mib_seconds=48_177_600,
        rows=rows,
        closes=True,
        simulated=True,
        currency="EUR",
        total_cost="17.50",
        energy_milliwatt_hours=1_072_345,
        measured_card_milliseconds=13_500_000,
        co2e_milligrams=794_607,
        rule="whole seconds of the ledger's clock, times thousandths of a card",
    ).model_dump(mode="json")


def live() -> dict[str, Any]:
    usage = UsageOut(utilization_percent=42.0, memory_used_bytes=3 * GIB)
    known = {
        "node": "node-1",
        "model": "H200",
        "simulated": True,
        "state": "adopted",
        "memory_bytes": 143771 << 20,
    }
    one = LiveCard(
        device="node-1:0",
        uuid="a",
        health="ok",
        held_milli=350,
        held_bytes=8 * GIB,
        shares=1,
        usage=usage,
        **known,
    )
    two = LiveCard(
        device="node-1:1", uuid="b", health="unknown", held_milli=0, held_bytes=0, shares=0, **known
    )
    running = LiveJob(
        job="j-0000000001",
        name="train",
        tenant="nlp",
        user="alice",
        devices=["node-1:0", "node-1:1"],
        held_milli=350,
        held_bytes=8 * GIB,
        since_ns=NOON - 65 * 10**9,
        cpu_percent=97.4,
        gpu_percent=33.6,
        share_percent=96.0,
        gpu_memory_bytes=5 * GIB,
    )
    tenant = LiveTenant(tenant="nlp", held_milli=350, held_bytes=8 * GIB, jobs=1)
    return LiveOut(
        at_ns=NOON, cards=[one, two], cards_total=2, tenants=[tenant], jobs=[running], jobs_total=3
    ).model_dump(mode="json")


def queued() -> list[dict[str, Any]]:
    rows = [
        QueuedOut(
            place=1, job="train", id="j-0000000001", tenant="nlp", user="alice", share="1.00 GPU", priority=100,
            waited_seconds=65, reason="not a whole card free", start=f"by {format_instant(NOON)}", start_ns=NOON,
            start_promised=True,
        ),
        QueuedOut(place=2, count=12),
        QueuedOut(
            place=14, count=4, job="mpi", id="j-0000000002", tenant="nlp", user="bob", share="0.50 GPU", priority=0,
            gang=True, waited_seconds=3600, reason="room for a part of the gang only", start=ABOUT, start_ns=NOON,
            start_chance_pct=68,
        ),
    ]  # fmt: skip
    return [row.model_dump(mode="json") for row in rows]


def reservations() -> list[dict[str, Any]]:
    facts: dict[str, Any] = {
        "tenant": "nlp",
        "user": "alice",
        "share": "1.00 GPU",
        "count": 8,
        "state": "planned",
    }
    once = ReservationOut(
        id="v-0000000001",
        name="demo",
        replicas=2,
        start_ns=NOON,
        end_ns=NOON + 4 * 3600 * 10**9,
        **facts,
    )
    nightly = ReservationOut(
        id="v-0000000002",
        name="nightly",
        replicas=1,
        start_ns=NOON,
        end_ns=None,
        every_seconds=86400,
        **facts,
    )
    return [once.model_dump(mode="json"), nightly.model_dump(mode="json")]


def explained() -> dict[str, Any]:
    return ExplainOut(
        job="big",
        state="pending",
        sentence="needs 16 whole cards on one node; 15 are free",
        hints=[f"wait: it starts {ABOUT}"],
        cards={"not a whole card free": 1},
        start=ABOUT,
        start_ns=NOON,
        start_chance_pct=68,
        nodes={"too few fitting cards on the node": 2},
        nearest="15 × [1.00 GPU (100 % compute) + 143771 MiB]",
        holders=["train holds 0.30 GPU (30 % compute) + 8192 MiB"],
        ahead=1,
    ).model_dump(mode="json")


def explained_gang() -> dict[str, Any]:
    """Two cards for each of 18 members, of which one waits and one has ended."""
    states = {16: "pending", 1: "done"}
    members = [
        MemberOut(
            job=f"mpi.{n}", role="worker", rank=n, state=states.get(n, "running"),
            node=None if n in states else f"node-{n // 4}",
            devices=[] if n in states else [f"node-{n // 4}:{card}" for card in (n % 4 * 2, n % 4 * 2 + 1)],
        )
        for n in range(18)
    ]  # fmt: skip
    return ExplainOut(
        job="mpi.0",
        state="running",
        sentence="runs on node-0:0, node-0:1 since 5 s; placed there because: node-0 is the tightest; fence: hard",
        gang=GangStandOut(id="g-0000000001", name="mpi", running=16, members=members),
    ).model_dump(mode="json")


def defrag_plan() -> DefragOut:
    move = MoveOut(
        job="j-0000000001",
        name="train",
        tenant="nlp",
        from_node="node-1",
        from_devices=["node-1:0"],
        node="node-2",
        devices=["node-2:1"],
        cards=["GPU-9"],
        generations=[7],
        lost_seconds=4000,
    )
    gain = {"whole_cards": (12, 12), "whole_nodes": (0, 1), "blocks": (0, 1)}
    held = ReservedOut(cards=2, gpu_milli=2000, memory_bytes=280 << 30)
    return DefragOut(
        moves=[move], lost_seconds=4000, by="cp-sat, proven best", movable=5, reserved=held, **gain
    )


def rebalance_plan() -> RebalanceOut:
    before = SpreadOut(cards=4, highest_milli=900, mean_milli=400, jain=0.7)
    after = SpreadOut(cards=4, highest_milli=500, mean_milli=400, jain=0.96)
    moves, held = defrag_plan().moves, ReservedOut(cards=0, gpu_milli=0, memory_bytes=0)
    return RebalanceOut(
        moves=moves, lost_seconds=4000, before=before, after=after, movable=5, reserved=held
    )


def room() -> CapacityOut:
    h200 = ModelRoom(
        model="H200",
        cards=2,
        free_milli=1700,
        largest_milli=1000,
        largest_bytes=143771 << 20,
        whole_free=1,
        whole_on_one_node=1,
        whole_nodes=0,
        fragment_milli=350.0,
    )
    nothing = {"cards": 1, "free_milli": 0, "largest_milli": 0, "largest_bytes": 0, "whole_free": 0}
    l40s = ModelRoom(model="L40S", **nothing, whole_on_one_node=0, whole_nodes=0)
    return CapacityOut(models=[h200, l40s], nodes=[], classes=[])


def numa(number: int, cpus: str, free_cpu_milli: int, free_gib: int) -> NumaOut:
    return NumaOut(
        number=number, cpus=cpus, cpu_milli=32_000, memory_bytes=256 << 30, free_cpu_milli=free_cpu_milli,
        free_bytes=free_gib << 30,
    )  # fmt: skip


def answers() -> dict[str, Any]:
    """What the sample pool says to GET, by path below /api/v1/."""
    array = {
        "name": "sweep.1",
        "array": "sweep",
        "array_index": 1,
        "count": 2,
        "submitted_ns": NOON,
    }
    jobs = [
        job("big", "pending", reason="needs 16 whole cards on one node; 15 are free", gpu_milli=1000, count=16,
            share="16 × [1.00 GPU (100 % compute) + 143771 MiB]", start=ABOUT, start_ns=NOON, start_chance_pct=68),
        job("train"),
        job(**array, state="done", exit_code=0),
        job("broken", "failed", exit_code=7, reason="exit code 7"),
        job("killed", "stopped", signal=15, reason="stopped by its user", tenant="nlp", user="bob"),
    ]  # fmt: skip
    tenant = TenantOut(
        name="nlp", quota=quota(), users=2, projects=["default", "thesis"], created_ns=NOON
    )
    user = {"tenant": "nlp", "created_ns": NOON}
    users = [
        UserOut(
            name="alice",
            role="tenant-admin",
            unix_user="alice",
            run_as=None,
            disabled=False,
            **user,
        ),
        UserOut(name="ci", role="user", unix_user=None, run_as="builder", disabled=True, **user),
    ]
    token = {"user": "ci", "kind": "api", "created_ns": NOON}
    tokens = [
        TokenOut(id="t-1", label="laptop", expires_ns=None, last_used_ns=None, **token),
        TokenOut(id="t-2", label="", expires_ns=NOON, last_used_ns=NOON, **token),
    ]
    sessions = [
        SessionRowOut(
            id="s-1", user="alice", tenant="nlp", address="192.0.2.7", browser="Firefox", created_ns=NOON,
            used_ns=NOON, idle_ends_ns=NOON, expires_ns=NOON, current=False,
        ),
    ]  # fmt: skip
    node = NodeOut(
        name="node-1", ready=True, simulated=True, labels={"rack": "r1"}, facts={"cgroups": "v2"},
        last_seen_ns=NOW, devices=3, generation=1, cpu_milli=64_000, host_bytes=512 << 30, free_cpu_milli=57_500,
        free_host_bytes=480 << 30, numa=[numa(0, "0-15,32-47", 25_500, 224), numa(1, "16-31,48-63", 32_000, 256)],
    )  # fmt: skip
    who = WhoamiOut(
        user="alice", tenant="nlp", role="user", permissions=["read", "run"], unix_user="alice", local=True,
        quota=quota(), version="0.2.0", pool="p-0000000001",
    )  # fmt: skip
    beside = {"cpu_milli": 6500, "host_bytes": 32 << 30}
    return {
        "jobs": jobs,
        "jobs/train": job("train", started_ns=NOON, ended_ns=NOON + 5 * 10**9, state="done", exit_code=0,
                          **beside, numa=[NumaPartOut(numa=0, **beside)],
                          cpu_milliseconds=1234, max_rss_bytes=64 << 20),
        "jobs/big/explain": explained(),
        "jobs/mpi/explain": explained_gang(),
        "queue": {"items": queued(), "next": None},
        "reservations": {"items": reservations(), "next": None},
        "devices": cards(),
        "defrag/plan": defrag_plan().model_dump(mode="json"),
        "rebalance/plan": rebalance_plan().model_dump(mode="json"),
        "defrag/moves": {"moving": ["j-0000000001"], "ended": []},
        "capacity": room().model_dump(mode="json"),
        "devices/node-1:0": cards()[0],
        "nodes": {"items": [node.model_dump(mode="json")], "next": None},
        "nodes/node-1": node.model_dump(mode="json"),
        "pool": pool(),
        "report": report(),
        "usage": live(),
        "tenants": [tenant.model_dump(mode="json")],
        "tenants/nlp": tenant.model_dump(mode="json"),
        "tenants/nlp/quota": quota().model_dump(mode="json"),
        "quotas": quota_tree(),
        "users": [one.model_dump(mode="json") for one in users],
        "sessions": {"items": [one.model_dump(mode="json") for one in sessions], "next": None},
        "tokens": [one.model_dump(mode="json") for one in tokens],
        "whoami": who.model_dump(mode="json"),
    }  # fmt: skip


PAGED = frozenset({"jobs", "devices", "tenants", "users", "tokens"})


def sample_pool(state_dir: Path, *, submit: dict[str, Any] | None = None) -> ScriptedPool:
    """A pool that gives these answers, pages of lists, and a problem for what it does not know."""
    known = answers()

    def answer(asked: Request) -> bytes:
        path = asked.target.removeprefix("/api/v1/").partition("?")[0]
        if asked.method == "POST" and path == "jobs":
            first = submit or job("train")
            return reply(SubmittedOut(first=JobOut(**first)).model_dump(mode="json"), 201)
        if asked.method == "POST" and path.endswith("/saved"):
            return reply(job(path.split("/")[1], saved_ns=NOW))
        if asked.method == "POST" and path.endswith("/stop"):
            return reply([job(path.split("/")[1], "stopped")])
        if path not in known:
            return reply(
                {"code": "GP-3003", "detail": f"no such thing: {path}", "hint": "gpupool ps --all"},
                404,
            )
        if path not in PAGED:
            return reply(known[path], headers='ETag: "4"\r\n')
        limit = int(asked.target.partition("limit=")[2].partition("&")[0])
        start = int(asked.target.partition("after=")[2].partition("&")[0] or 0)
        items = known[path][start : start + limit]
        end = start + limit
        return reply({"items": items, "next": str(end) if end < len(known[path]) else None})

    return ScriptedPool(state_dir, answer)
