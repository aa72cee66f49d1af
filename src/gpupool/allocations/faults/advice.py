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
class RepairObstacle:
    """What stands on the cards that a repair would touch.

    Attributes:
        names: The cards in use, as `gpupool release` takes them.
        shares: Shares of jobs on them.
        processes: Processes on them that the pool did not start.
    """

    names: tuple[str, ...]
    shares: int
    processes: int

    @property
    def command(self) -> str:
        """Return the command that lets the work end."""
        return f"gpupool release {','.join(self.names)} --drain"

    def __str__(self) -> str:
        return (
            f"work on {','.join(self.names)} (shares: {self.shares}, processes outside the pool: "
            f"{self.processes})"
        )


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


def find_obstacle(repair: Repair, cards: Sequence[RepairCard]) -> RepairObstacle | None:
    """Return what a repair would end; None where no card that it would touch is in use."""
    if repair not in (Repair.RESET, Repair.REBOOT):
        return None
    used = [card for card in cards if card.shares > 0 or card.processes > 0]
    if not used:
        return None
    return RepairObstacle(
        tuple(card.name for card in used),
        sum(card.shares for card in used),
        sum(card.processes for card in used),
    )


def _describe_harmless(containment: Containment) -> str:
    if containment is Containment.TELL_JOB:
        return (
            "The driver reported it to the program, and the cards stay in the pool. Read the output "
            "of the jobs."
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
    obstacle = find_obstacle(repair, cards)
    if obstacle is not None:
        return FaultAdvice(
            f"A {repair} is proposed, and it would end {obstacle}. Let it end first.",
            obstacle.command,
        )
    if repair is Repair.INSPECT:
        reach = f"the cards of {node}" if containment in WIDE else f"the card on {node}"
        return FaultAdvice(f"A person must look at {reach}. Accept it to take it over.", accept)
    return FaultAdvice(
        f"A {repair} is proposed, and no card that it would touch is in use.", accept
    )
