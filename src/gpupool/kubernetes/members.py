"""Who of each gang stands in ledgers, and how many of it have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from gpupool.kubernetes.objects import Entry, GpuNode
from gpupool.kubernetes.queue import Present

T = TypeVar("T")


class Members:
    """One leader's."""

    def __init__(self) -> None:
        self._entered: defaultdict[str, dict[str, list[Entry]]] = defaultdict(dict)
        """By gang and member, what stands in ledgers."""
        self._over: defaultdict[str, set[str]] = defaultdict(set)
        """By gang its pods that have ended and are still there."""

    def note(self, gone: Iterable[Entry], come: Iterable[Entry]) -> None:
        """These entries left a ledger, those stand there now."""
        for entry in gone:
            if entry.gang and not self._entered[entry.gang].pop(entry.uid, None) and not self._entered[entry.gang]:
                del self._entered[entry.gang]
        for entry in come:
            if entry.gang:
                self._entered[entry.gang].setdefault(entry.uid, []).append(entry)

    def note_over(self, gang: str, uid: str, *, gone: bool) -> None:
        """A pod of the gang has ended, or is gone altogether."""
        (self._over[gang].discard if gone else self._over[gang].add)(uid)

    def present(self, gang: str) -> Present:
        """Who of the gang has cards, and how many have ended."""
        return Present(self._entered.get(gang, {}), len(self._over.get(gang, ())))

    def gangs(self) -> list[str]:
        """Gangs of which something stands in a ledger."""
        return [name for name, members in self._entered.items() if members]


def entries(node: GpuNode | None) -> tuple[Entry, ...]:
    """What stands in a ledger, if there is one."""
    return node.entries if node else ()


def uids(node: GpuNode | None) -> set[str]:
    """Of pods, and members to come, that stand there."""
    return {entry.uid for entry in entries(node)}


def put(into: dict[str, T], name: str, value: T | None) -> None:
    """Under that name; None: not any more."""
    if value is None:
        into.pop(name, None)
    else:
        into[name] = value
