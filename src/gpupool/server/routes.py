"""Routes of the server itself: health, checks, and the pool as a whole."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import Depends, Request
from pydantic import Field
from starlette.responses import Response

from gpupool import __version__
from gpupool.allocations.service import Allocations
from gpupool.allocations.store.tables import NOT_MADE, jobs
from gpupool.api.late_routes import Router
from gpupool.base.health import HealthChecks
from gpupool.fleet.tables import devices, nodes
from gpupool.model.job import LIVE, JobState
from gpupool.model.tenant import Permission, Principal
from gpupool.server.config import ServerConfig
from gpupool.store.tables import pool
from gpupool.tenancy.access import require_caller
from gpupool.wire.common import WireModel
from gpupool.wire.people import PoolOut

open_router = Router(tags=["doors"])
router = Router(tags=["pool"])


class HealthOut(WireModel):
    """`ready` once every node has told what became of its jobs; `well` while no check fails."""

    ready: bool
    version: str
    role: Literal["alone", "leader", "standby", "lapsed"] = Field(
        "alone",
        description="of several servers on one database; lapsed: its lease is over, it answers "
        "nothing else",
    )
    leader: str | None = Field(None, description="where the leader is, by a standby")
    well: bool = True
    failing: list[str] = Field(
        default_factory=list, description="names of the checks that fail now"
    )
    warning: list[str] = Field(
        default_factory=list, description="names of the checks that warn now"
    )


class CheckOut(WireModel):
    """One thing that was looked at. `next` says what to do about it, where something is to be
    done."""

    name: str
    state: Literal["ok", "warn", "fail"]
    text: str
    next: str = ""


@open_router.get("/healthz")
def healthz(request: Request, response: Response) -> HealthOut:
    """Whether the server answers, and whether it knows what became of every job. Needs no login.

    503 while a check fails; GET /api/v1/checks says what was found.
    """
    leading = request.app.state.store.leading
    if leading is not None and not leading.holds():
        # Without a lease the database is another server's: checks that ask it would wait for it.
        response.status_code = 503
        return HealthOut(
            ready=False, version=__version__, role="lapsed", well=False, failing=["leader"]
        )
    checks: HealthChecks = request.app.state.checks
    unwell = checks.list_unwell()
    failing = unwell["fail"]
    response.status_code = 503 if failing else 200
    role: Literal["alone", "leader"] = "alone" if leading is None else "leader"
    return HealthOut(
        ready=is_ready(request),
        version=__version__,
        role=role,
        well=not failing,
        failing=failing,
        warning=unwell["warn"],
    )


@router.get("/pool")
def get_pool(
    request: Request, _caller: Annotated[Principal, Depends(require_caller(Permission.READ))]
) -> PoolOut:
    """The pool as a whole: its server, its place, and how much there is."""
    config: ServerConfig = request.app.state.config
    allocations: Allocations = request.app.state.allocations
    fault = allocations.placer.planner.fault
    leading = request.app.state.store.leading
    with request.app.state.store.read() as connection:
        counts = _count_pool(connection)
    return PoolOut(
        version=__version__,
        pid=os.getpid(),
        ready=is_ready(request),
        store=request.app.state.store.engine.dialect.name,
        state_dir=config.state_dir,
        listeners=list(config.listeners),
        started_ns=config.started_ns,
        ledger_ahead_seconds=round(request.app.state.store.clock.ahead_ns() / 1e9, 3),
        role="alone" if leading is None else "leader",
        leader_number=None if leading is None else leading.number,
        lease_age_seconds=None if leading is None else round(leading.age_seconds() or 0.0, 3),
        policy=allocations.cache.policy,
        policy_fault=None if fault is None else f"{fault.sentence}: {fault.error}",
        **counts,
    )


@router.get("/checks")
def get_checks(
    request: Request, _caller: Annotated[Principal, Depends(require_caller(Permission.READ))]
) -> list[CheckOut]:
    """What the server finds of itself now: each check with its state and what to do next."""
    checks: HealthChecks = request.app.state.checks
    return [
        CheckOut(name=name, state=found.state, text=found.text, next=found.following)
        for name, found in checks.run_all().items()
    ]


def is_ready(request: Request) -> bool:
    """Return whether the host is ready and every node is registered and done telling."""
    config: ServerConfig = request.app.state.config
    if not config.ready():
        return False
    with request.app.state.store.read() as connection:
        return (
            connection.execute(sa.select(nodes.c.id).where(~nodes.c.ready).limit(1)).first() is None
        )


def _count_pool(connection: sa.Connection) -> dict[str, Any]:
    row = connection.execute(sa.select(pool)).one()
    cards = connection.execute(
        sa.select(sa.func.count(), sa.func.min(sa.cast(devices.c.simulated, sa.Integer)))
    ).one()
    live = jobs.c.state.in_([str(state) for state in sorted(LIVE)])
    waits = sa.func.count(sa.case((jobs.c.state == str(JobState.PENDING), 1)))
    work = connection.execute(sa.select(sa.func.count(), waits).where(live)).one()
    not_made = connection.execute(NOT_MADE).scalar_one()
    return {
        "id": row.pool_id,
        "last_event": row.event_seq,
        "event_epoch": row.event_epoch,
        "nodes": connection.execute(sa.select(sa.func.count()).select_from(nodes)).scalar_one(),
        "devices": cards[0],
        "simulated": None if cards[1] is None else bool(cards[1]),
        "jobs_live": work[0] + not_made,
        "jobs_pending": work[1] + not_made,
    }
