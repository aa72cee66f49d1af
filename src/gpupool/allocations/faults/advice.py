"""Says what a person does next about an incident, in words and as one command. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpupool.model.faults.actions import Containment, Repair

#: Containments that close more than the cards that had an XID.
WIDE: Final = (Containment.DRAIN_PEERS, Containment.DRAIN_NODE)


@dataclass(frozen=True)
class RepairCard:
    """A card that a repair would touch.

    Attributes:
        name: node:index.
        shares: Shares of jobs on it.
        processes: Processes on it that the pool did not start, as far as its agent tells.
    """

    name: str
    uuid: str
    shares: int
    processes: int
    failed: bool


@dataclass(frozen=True)
class FaultAdvice:
    """The next step of a person."""

    sentence: str
    command: str = ""


def advise(
    incident: str,
    node: str,
    state: str,
    containment: Containment,
    repair: Repair,
    cards: Sequence[RepairCard],
) -> FaultAdvice:
    """Return the next step.

    Args:
        incident: Its id.
        node: The node of its cards.
        cards: What the repair would touch.
    """
    close = f"gpupool faults close {incident}"
    if state == "closed":
        return FaultAdvice("The incident is closed.")
    if repair is Repair.NONE:
        return FaultAdvice(_describe_harmless(containment), close)
    if state == "open":
        return _advise_open(incident, node, containment, repair, cards)
    if repair is Repair.RESET:
        uuids = ",".join(card.uuid for card in cards)
        return FaultAdvice(
            f"On {node}: stop the agent, reset the cards, start the agent. Then close the incident:  "
            f"{close}",
            f"nvidia-smi --gpu-reset -i {uuids}",
        )
    if repair is Repair.REBOOT:
        return FaultAdvice(
            f"Reboot {node}. Then close the incident:  {close}", f"ssh {node} sudo systemctl reboot"
        )
    return FaultAdvice(
        f"On {node}: save the driver's report, ask the vendor, and check the card, its slot and its "
        f"cables. Then close the incident:  {close}",
        f"ssh {node} sudo nvidia-bug-report.sh",
    )


def is_in_use(card: RepairCard) -> bool:
    return card.shares > 0 or card.processes > 0


def _describe_harmless(containment: Containment) -> str:
    if containment is Containment.TELL_JOB:
        return (
            "The driver told the program, and the cards stay in the pool. Look at what the jobs "
            "printed."
        )
    return "Nothing is to be done. The incident stays as evidence."


def _advise_open(
    incident: str,
    node: str,
    containment: Containment,
    repair: Repair,
    cards: Sequence[RepairCard],
) -> FaultAdvice:
    accept = f"gpupool faults accept {incident}"
    used = [card for card in cards if is_in_use(card)]
    if repair in (Repair.RESET, Repair.REBOOT) and used:
        shares = sum(card.shares for card in used)
        processes = sum(card.processes for card in used)
        names = ",".join(card.name for card in used)
        return FaultAdvice(
            f"A {repair} is proposed, and it would end work on {names} (shares: {shares}, processes "
            f"outside the pool: {processes}). Let it end first.",
            f"gpupool release {names} --drain",
        )
    if repair is Repair.INSPECT:
        reach = f"the cards of {node}" if containment in WIDE else f"the card on {node}"
        return FaultAdvice(f"A person must look at {reach}. Accept it to take it over.", accept)
    return FaultAdvice(
        f"A {repair} is proposed, and no card that it would touch is in use.", accept
    )
