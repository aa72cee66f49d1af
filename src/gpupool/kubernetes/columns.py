"""Nodes and their cards as the scheduler's columns, kept: where something was noted the numbers are written anew.

They are laid out anew where a node comes or goes, or a class of pods that may go elsewhere than those before. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized

import numpy as np

from gpupool.kubernetes.hosts import Host, Site, columns_of, fill
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.running import RunningJobs
from gpupool.scheduling.snapshot import Cards


class Columns:
    """One leader's; nodes, ledgers and pods are those that the pool knows."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        ledgers: Mapping[str, GpuNode],
        pods: Mapping[str, Pod],
        site_now: Callable[[str], Site],
        marks: Sized,
    ) -> None:
        """`marks` are the labels by which nodes are told for whom they are."""
        self._hosts, self._ledgers, self._pods, self._site_now, self._marks = hosts, ledgers, pods, site_now, marks
        self.sites: list[Site] = []
        """Nodes with cards, as they were looked at last."""
        self.running = RunningJobs()
        self._number: dict[str, int] = {}
        self._marked = 0
        self._cards: Cards | None = None
        self._stale: set[str] = set()

    def touch(self, name: str) -> None:
        """Something of the node was noted."""
        self._stale.add(name)

    def lay_anew(self) -> None:
        """What was known of all nodes does not hold any more."""
        self._cards = None

    def site(self, name: str) -> Site:
        """The node as it was looked at last."""
        return self.sites[self._number[name]]

    def now(self) -> Cards:
        """The living columns, brought up to date."""
        if self._cards is None or self._marked != len(self._marks) or not self._refill():
            names = sorted(name for name in self._ledgers if self._is_shown(name))
            self.sites = [self._site_now(name) for name in names]
            self._number = {name: number for number, name in enumerate(names)}
            self._cards, self._marked = columns_of(self.sites), len(self._marks)
            self.running.keep_only(names)
            for name in names:
                self._note_running(name)
        self._stale.clear()
        return self._cards

    def _is_shown(self, name: str) -> bool:
        return name in self._hosts and name in self._ledgers and bool(self._ledgers[name].cards)

    def _refill(self) -> bool:
        """Write the numbers that changed; False where the columns have to be laid out anew."""
        assert self._cards is not None
        for name in sorted(self._stale):
            shown = self._is_shown(name)
            if shown != (name in self._number):
                return False
            if not shown:
                continue
            number, site = self._number[name], self._site_now(name)
            if site.layout != self.sites[number].layout:
                return False
            self.sites[number] = site
            fill(self._cards, number, site)
            self._note_running(name)
        return True

    def _note_running(self, name: str) -> None:
        assert self._cards is not None
        ledger = self._ledgers[name]
        first = int(np.searchsorted(self._cards.node, self._number[name]))
        self.running.note(ledger, self._pods, {card.uuid: first + n for n, card in enumerate(ledger.cards)})
