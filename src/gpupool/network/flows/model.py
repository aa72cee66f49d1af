"""What a tenant wants logged of a network's flows, as values. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

#: What became of a packet.
FlowVerdict = Literal["allowed", "denied"]
#: What a flow log has records of.
FlowChoice = Literal["all", "allowed", "denied"]

#: By choice, the verdicts that it has.
VERDICTS: Final[dict[str, frozenset[FlowVerdict]]] = {
    "all": frozenset({"allowed", "denied"}),
    "allowed": frozenset({"allowed"}),
    "denied": frozenset({"denied"}),
}


def join_choices(choices: Iterable[str]) -> frozenset[FlowVerdict]:
    """Return the verdicts that some of the choices have."""
    found = set[FlowVerdict]()
    for choice in choices:
        found |= VERDICTS[choice]
    return frozenset(found)
