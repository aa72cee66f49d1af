"""Switches of cards to other modes: the wish is the server's, the fact is the agent's.

A switch drains the card, lets its agent set it up, and gives it back the state it had. A row of
`mode_switches` is one switch under way. The agent learns of it when no share is on the card any
more; after a kill at any step it gets the switch again. The switch is over when the agent has
registered the card in the mode that was asked for. In the caller's transaction, as `changing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from gpupool.base.errors import WrongState
from gpupool.fleet.changing import set_device_state
from gpupool.fleet.lookup import name_of, select_cards
from gpupool.fleet.tables import devices, mode_switches, nodes
from gpupool.model.device import CardMode, DeviceState
from gpupool.store.database import WriteTransaction
from gpupool.wire.modes import ModeReport, ModeSwitchOut, ModeWork

#: Characters of a reason that are kept.
REASON_LENGTH = 400

_READY = (
    sa.select(
        mode_switches.c.mode,
        mode_switches.c.work_seq,
        devices.c.uuid,
    )
    .join(devices, devices.c.id == mode_switches.c.device_id)
    .join(nodes, nodes.c.id == devices.c.node_id)
    .where(
        nodes.c.agent == sa.bindparam("of_agent"),
        mode_switches.c.work_seq > sa.bindparam("after"),
        devices.c.shares == 0,
    )
    .order_by(mode_switches.c.work_seq)
)


def plan_switch(row: Any, wanted: CardMode) -> ModeSwitchOut:
    """Plan the switch of a card: its steps, and what blocks it. Pure.

    Args:
        row: the card's row, with `node_name`.
    """
    current = get_mode(row.facts)
    offers = _read_offers(row.facts)
    offer = offers.get(wanted, _NO_OFFER)
    is_done = current == wanted
    blocked = "" if is_done else _find_block(row, wanted, offers)
    return ModeSwitchOut(
        device=name_of(row),
        mode=current,
        wanted=str(wanted),
        steps=[] if is_done else _list_steps(row, current, wanted, offer.steps),
        blocked_by=[blocked] if blocked else [],
        needs=offer.needs,
        seconds=offer.seconds,
        state="done" if is_done else "planned",
    )


def get_mode(facts: Mapping[str, Any]) -> str:
    """Return the mode of a card by its facts; a card of an older agent is plain."""
    return str(facts.get("mode", CardMode.PLAIN))[:16]


@dataclass(frozen=True)
class PublishedOffer:
    """A mode that a card could be switched to, as its agent published it."""

    needs: str
    seconds: float | None
    blocked_by: str
    steps: tuple[str, ...]


_NO_OFFER = PublishedOffer("nothing", None, "", ())


def _read_offers(facts: Mapping[str, Any]) -> dict[str, PublishedOffer]:
    """Read what an agent published, by mode; what is no offer is left out."""
    found = {}
    published = facts.get("modes")
    for entry in published if isinstance(published, list) else ():
        if not isinstance(entry, dict):
            continue
        seconds = entry.get("seconds")
        steps = entry.get("steps")
        found[str(entry.get("mode"))] = PublishedOffer(
            str(entry.get("needs", "nothing")),
            float(seconds) if isinstance(seconds, int | float) else None,
            str(entry.get("blocked_by", "")),
            tuple(map(str, steps)) if isinstance(steps, list) else (),
        )
    return found


def _find_block(row: Any, wanted: CardMode, offers: Mapping[str, PublishedOffer]) -> str:
    if row.state == DeviceState.LOST:
        return f"{name_of(row)} is not there now (lost)"
    if wanted == CardMode.PLAIN:
        return ""
    offer = offers.get(wanted)
    if offer is None:
        known = ", ".join(sorted(offers)) or "none but plain"
        return f"{row.model} on this node never has mode {wanted}; it has: {known}"
    return offer.blocked_by


def _list_steps(
    row: Any, current: str, wanted: CardMode, switch_steps: tuple[str, ...]
) -> list[str]:
    steps = []
    if row.shares:
        count = "1 share" if row.shares == 1 else f"{row.shares} shares"
        steps.append(f"wait for {count} to end; no new one is placed there")
    if current != CardMode.PLAIN:
        steps.append(f"undo mode {current}")
    if wanted != CardMode.PLAIN:
        steps += switch_steps
    steps.append("look at the card again")
    if row.state == DeviceState.ADOPTED:
        steps.append("hand it out again")
    return steps


def begin_switch(write: WriteTransaction, row: Any, wanted: CardMode) -> None:
    """Write that a card is to be switched, and drain it. The same again changes nothing.

    Another mode replaces the one that was asked for before; the agent goes to it from wherever the
    card is.
    """
    known = _read_switch(write, row.id)
    if known is not None and known.mode == wanted:
        return
    before = known.state_before if known is not None else row.state
    write.execute(mode_switches.delete().where(mode_switches.c.device_id == row.id))
    write.execute(
        mode_switches.insert().values(
            device_id=row.id,
            mode=str(wanted),
            state_before=str(before),
            reason="",
            begun_ns=write.now_ns,
            work_seq=write.touch_ledger(),
        )
    )
    drained = DeviceState.DRAINING if row.shares else DeviceState.OBSERVED
    set_device_state(write, [row], drained, f"device.{_DRAIN_EVENTS[drained]}")
    data = {"uuid": row.uuid, "mode": str(wanted), "before": get_mode(row.facts)}
    write.event("device.mode_requested", name_of(row), data=data)
    _wake_agents(write, [row.id])


_DRAIN_EVENTS = {DeviceState.DRAINING: "draining", DeviceState.OBSERVED: "released"}


def _read_switch(write: WriteTransaction, device_id: int) -> Any:
    query = sa.select(mode_switches).where(mode_switches.c.device_id == device_id)
    return write.execute(query).one_or_none()


def is_switching(write: WriteTransaction, device_id: int) -> bool:
    """Whether a switch of the card is under way."""
    return _read_switch(write, device_id) is not None


def renew_drained(write: WriteTransaction, rows: Sequence[Any]) -> None:
    """Put the switches of cards that were just drained before their agents again."""
    ids = [row.id for row in rows]
    if not ids:
        return
    waiting = mode_switches.c.device_id.in_(ids)
    done = write.execute(
        mode_switches.update().where(waiting).values(work_seq=write.touch_ledger())
    )
    if done.rowcount:
        _wake_agents(write, ids)


def _wake_agents(write: WriteTransaction, device_ids: Iterable[int]) -> None:
    query = (
        sa.select(nodes.c.agent)
        .join(devices, devices.c.node_id == nodes.c.id)
        .where(devices.c.id.in_(list(device_ids)))
        .distinct()
    )
    write.announce(*(("node", agent) for agent in write.execute(query).scalars()))


def refuse_switching(write: WriteTransaction, rows: Iterable[Any]) -> None:
    """Raise WrongState for cards that are being switched: they are handed out afterwards."""
    by_id = {row.id: row for row in rows}
    query = sa.select(mode_switches).where(mode_switches.c.device_id.in_(by_id))
    for switch in write.execute(query):
        name = name_of(by_id[switch.device_id])
        raise WrongState(
            f"{name} is being switched to mode {switch.mode}",
            hint=f"gpupool show {name} says how far it is; gpupool mode {name} plain turns back",
        )


def read_ready(connection: sa.Connection, agent: str, after: int) -> list[tuple[int, ModeWork]]:
    """Read the switches that an agent may begin, behind the cursor, each with its own cursor."""
    rows = connection.execute(_READY, {"of_agent": agent, "after": after})
    return [(row.work_seq, ModeWork(uuid=row.uuid, mode=row.mode)) for row in rows]


def read_switches(connection: sa.Connection) -> dict[int, Any]:
    """Read every switch under way, by the card's row id."""
    return {row.device_id: row for row in connection.execute(sa.select(mode_switches))}


def describe_switch(row: Any, switch: Any) -> ModeSwitchOut | None:
    """Describe the switch of a card that is under way; None without one."""
    if switch is None:
        return None
    plan = plan_switch(row, CardMode(switch.mode))
    state: Literal["draining", "switching"] = "draining" if row.shares else "switching"
    return plan.model_copy(update={"state": state, "reason": switch.reason})


def apply_report(write: WriteTransaction, agent: str, report: ModeReport) -> None:
    """Apply what an agent says of one switch. A report of a switch that is over changes nothing."""
    query = (
        select_cards()
        .add_columns(
            mode_switches.c.mode.label("wanted"),
            mode_switches.c.state_before,
            mode_switches.c.reason.label("reason_before"),
        )
        .join(mode_switches, mode_switches.c.device_id == devices.c.id)
        .where(devices.c.uuid == report.uuid, nodes.c.agent == agent)
    )
    row = write.execute(query).one_or_none()
    if row is None or row.wanted != report.mode:
        return
    if report.state == "switching":
        if row.reason_before != report.reason:
            mine = mode_switches.c.device_id == row.id
            reason = report.reason[:REASON_LENGTH]
            write.execute(mode_switches.update().where(mine).values(reason=reason))
        return
    if report.state == "done" and get_mode(row.facts) != row.wanted:
        # The agent registers the card before it reports; a card that is lost meanwhile is not in
        # the mode.
        return
    write.execute(mode_switches.delete().where(mode_switches.c.device_id == row.id))
    kind = "device.mode_changed" if report.state == "done" else "device.mode_failed"
    data = {"uuid": row.uuid, "mode": row.wanted, "reason": report.reason[:REASON_LENGTH]}
    write.event(kind, name_of(row), data=data)
    if row.state_before == DeviceState.ADOPTED:
        set_device_state(write, [row], DeviceState.ADOPTED, "device.adopted")
