"""Reads what a BGP speaker says of its peer, and chooses what is learned. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final

from gpupool.network.lines.model import is_allowed
from gpupool.wire.network.lines import LineRefusal, LineReport, LineWork

#: Refused prefixes that a report names.
_NAMED: Final = 50


@dataclass(frozen=True)
class SpeakerView:
    """What a speaker says of its peer.

    Attributes:
        neighbor: of `show bgp neighbors`.
        accepted: prefixes that passed the filters of the speaker.
        received: all prefixes that the peer announces.
    """

    neighbor: dict[str, Any]
    accepted: Collection[str]
    received: Collection[str]

    @property
    def is_up(self) -> bool:
        return bool(self.neighbor.get("bgpState") == "Established")


def describe_session(
    line: LineWork, view: SpeakerView, before: Collection[str], wrong_keys: int
) -> LineReport:
    """Describe the session of a line.

    Args:
        before: prefixes that were learned until now; they stay where the limit is exceeded.
        wrong_keys: packets with a wrong key since the session was up last.
    """
    if not view.is_up:
        return LineReport(
            id=line.id, state="down", reason=_explain(line, view.neighbor, wrong_keys)
        )
    learned = _choose(view.accepted, before, line.prefix_limit)
    refused = _list_refusals(line, view, set(learned))
    return LineReport(
        id=line.id,
        state="up",
        learned=learned,
        refused=refused[:_NAMED],
        refused_count=len(refused),
    )


def _choose(accepted: Iterable[str], before: Collection[str], limit: int) -> list[str]:
    ordered = sorted(accepted, key=lambda text: (text not in before, IPv4Network(text)))
    return sorted(ordered[:limit], key=IPv4Network)


def _list_refusals(line: LineWork, view: SpeakerView, learned: set[str]) -> list[LineRefusal]:
    allowed = tuple(map(IPv4Network, line.allowed))
    refusals = list[LineRefusal]()
    # Many peers send back what they learned here.
    foreign = set(view.received) - learned - set(line.announced)
    for prefix in sorted(foreign, key=IPv4Network):
        if not is_allowed(IPv4Network(prefix), allowed):
            reason = "not allowed"
        elif prefix in view.accepted:
            reason = f"over the limit of {line.prefix_limit} prefixes"
        else:
            reason = "its path has our AS number, or it is malformed"
        refusals.append(LineRefusal(prefix=prefix, reason=reason))
    return refusals


def _explain(line: LineWork, neighbor: dict[str, Any], wrong_keys: int) -> str:
    """Say why a session is down."""
    if wrong_keys:
        return (
            f"packets of {line.peer} have a wrong MD5 key"
            if line.key is not None
            else f"packets of {line.peer} have an MD5 key, and the line has none"
        )
    last = neighbor.get("lastNotificationReason") or neighbor.get("lastResetDueTo")
    if not last:
        return f"{line.peer} does not answer"
    # Words of the peer, which may be long.
    return f"the session with {line.peer} ended: {str(last)[:200]}"


def count_wrong_keys(statistics: str) -> int:
    """Count packets with a wrong, missing or unexpected key in /proc/net/netstat (tcp(7))."""
    rows = [line.split() for line in statistics.splitlines() if line.startswith("TcpExt:")]
    if len(rows) < 2:
        return 0
    names, values = rows[:2]
    wrong = ("TCPMD5NotFound", "TCPMD5Unexpected", "TCPMD5Failure")
    return sum(int(value) for name, value in zip(names, values, strict=True) if name in wrong)
