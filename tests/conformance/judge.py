"""Whether a case ended as it says, and if not, in what it differs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.conformance.case import BadCase, Case, Expected
from tests.conformance.play import Ending, play


class Kind(StrEnum):
    """In what an ending differs from what the case says."""

    EQUAL = "equal"
    NODES = "other nodes"
    """The same claims run with as many members, on other nodes."""
    CLAIMS = "other claims"
    LIVELOCK = "livelock"
    OUTSIDE = "outside"
    """Our terms cannot state the case."""


@dataclass(frozen=True)
class Verdict:
    """The kind, and what differs in words."""

    kind: Kind
    sentence: str = ""
    rounds: int = 0


def judge(case: Case) -> Verdict:
    """Play the case and compare."""
    if case.outside:
        return Verdict(Kind.OUTSIDE, f"asks for {case.outside}")
    return compared(case, play(case))


def compared(case: Case, ending: Ending) -> Verdict:
    """The ending against what the case says."""
    unknown = case.expected.keys() - ending.nodes.keys()
    if unknown:
        raise BadCase(f"{case.id} expects something of {sorted(unknown)}, which it has not")
    if not ending.settled:
        return Verdict(Kind.LIVELOCK, f"still changes after {ending.rounds} plans", ending.rounds)
    claims = [_claims(name, one, ending) for name, one in case.expected.items()]
    if differ := [text for text in claims if text]:
        return Verdict(Kind.CLAIMS, "; ".join(differ), ending.rounds)
    nodes = [_nodes(name, one, ending) for name, one in case.expected.items()]
    if differ := [text for text in nodes if text]:
        return Verdict(Kind.NODES, "; ".join(differ), ending.rounds)
    return Verdict(Kind.EQUAL, "", ending.rounds)


def _claims(name: str, expected: Expected, ending: Ending) -> str:
    runs = len(ending.nodes[name])
    if runs != expected.running:
        return f"{name}: {runs} run, expected {expected.running}"
    if expected.evicted is not None and bool(ending.evicted[name]) != expected.evicted:
        return f"{name}: evicted {ending.evicted[name]} times, expected {'some' if expected.evicted else 'none'}"
    return ""


def _nodes(name: str, expected: Expected, ending: Ending) -> str:
    """Members that may run anywhere take what the others leave."""
    left = list(ending.nodes[name])
    for node in expected.nodes:
        if node and node not in left:
            return (
                f"{name}: on {', '.join(ending.nodes[name])}, expected {', '.join(expected.nodes)}"
            )
        if node:
            left.remove(node)
    return ""
