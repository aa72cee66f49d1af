"""Applies what the machines of the pair report: their states, moves, and what drills found.

Everything runs in the caller's transaction.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.network.gateways.reading import read_members, read_pair_row
from gpupool.network.gateways.tables import (
    network_gateway_drills,
    network_gateway_pair,
    network_gateways,
)
from gpupool.network.machines.service import has_gateways
from gpupool.network.tables import network_engine
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.gateways import GatewayDrillReport, GatewayReport


def apply_gateway_report(write: WriteTransaction, agent: str, report: GatewayReport) -> None:
    """Keep the state of a machine of the pair. Idempotent; others' reports change nothing."""
    members = {member.agent: member for member in read_members(write.connection)}
    mine = members.get(agent)
    if mine is None:
        return
    values = report.model_dump()
    if all(getattr(mine, name) == value for name, value in values.items()):
        return
    ours = network_gateways.c.agent == agent
    write.execute(network_gateways.update().where(ours).values(**values))
    if report.state == "active":
        _note_move(write, agent, report)
    write.announce("network-engine")


def apply_gateway_uplink(write: WriteTransaction, engine: Any, agent: str, prefix: str) -> bool:
    """Keep the prefix of the uplink that both machines of the pair have; whether it changed.

    The first machine that has one chooses it.
    """
    if agent not in {member.agent for member in read_members(write.connection)}:
        return False
    if prefix and not engine.uplink:
        wanted = prefix
    elif engine.uplink and not has_gateways(write.connection):
        wanted = ""
    else:
        return False
    write.execute(network_engine.update().values(uplink=wanted))
    return True


def apply_drill_report(write: WriteTransaction, report: GatewayDrillReport) -> None:
    """Keep what a drill found. Idempotent; a report of one that has ended is dropped."""
    drills = network_gateway_drills.c
    query = sa.select(network_gateway_drills).where(
        drills.public_id == report.id, drills.state == "running"
    )
    row = write.execute(query).one_or_none()
    if row is None:
        return
    finish_drill(
        write,
        row,
        state="failed" if report.reason else "done",
        reason=report.reason,
        moves=[move.model_dump() for move in report.moves],
    )


def finish_drill(write: WriteTransaction, row: Any, **values: object) -> None:
    """End a drill; its port goes."""
    ours = network_gateway_drills.c.id == row.id
    ended = {**values, "finished_ns": write.now_ns}
    write.execute(network_gateway_drills.update().where(ours).values(**ended))
    write.event("network.gateway_drill_ended", row.public_id, data={"state": values["state"]})
    write.announce(("network", row.network_id))


def _note_move(write: WriteTransaction, agent: str, report: GatewayReport) -> None:
    pair = read_pair_row(write.connection)
    if pair is None or pair.active == agent:
        return
    values = {
        "active": agent,
        "moved_from": pair.active,
        "moved_ns": report.since_ns,
        "move_reason": report.reason[:200],
    }
    write.execute(network_gateway_pair.update().values(**values))
    data = {"from": pair.active, "reason": report.reason[:200]}
    write.event("network.gateways_moved", agent, data=data)
