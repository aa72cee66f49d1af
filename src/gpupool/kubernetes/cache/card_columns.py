"""Keeps the scheduler's columns of nodes and cards current.

Where something of a node has changed, its numbers are overwritten in place. The columns are laid
out anew when a node comes or goes, or when a class of pods with another rule waits. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized

import numpy as np

from gpupool.kubernetes.cache.running_jobs import RunningJobs
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import (
    NodeFacts,
    NodeState,
    build_columns,
    copy_columns,
    fill_columns,
)
from gpupool.kubernetes.resources.pod import Pod
from gpupool.scheduling import CardTable


class CardColumns:
    """The columns, and the entries that run on their cards.

    Attributes:
        sites: nodes with cards, as the columns have them.
        running: entries of the nodes' ledgers, as the scheduler's running jobs.
    """

    def __init__(
        self,
        hosts: Mapping[str, NodeFacts],
        ledgers: Mapping[str, GpuNode],
        pods: Mapping[str, Pod],
        read_node: Callable[[str], NodeState],
        rule_labels: Sized,
        drop_labels: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            read_node: the node of that name as it is now.
            rule_labels: labels for the nodes that waiting rules admit; grows with each new rule.
            drop_labels: removes those that no waiting pod needs; called before nodes are labelled.
        """
        self._hosts = hosts
        self._ledgers = ledgers
        self._pods = pods
        self._read_node = read_node
        self._rule_labels = rule_labels
        self._drop_labels = drop_labels
        self.sites: list[NodeState] = []
        self.running = RunningJobs()
        #: By name of a node, its position in `sites`.
        self._number: dict[str, int] = {}
        self._label_count = 0
        self._cards: CardTable | None = None
        self._stale: set[str] = set()

    def mark_stale(self, name: str) -> None:
        """Have the node's numbers read again."""
        self._stale.add(name)

    def invalidate_layout(self) -> None:
        """Have all columns laid out anew."""
        self._cards = None

    def node_state(self, name: str) -> NodeState:
        """The node as the columns have it."""
        return self.sites[self._number[name]]

    def copy_columns(self) -> CardTable:
        """A copy of the current columns that later changes do not touch."""
        return copy_columns(self.refresh_columns())

    def refresh_columns(self) -> CardTable:
        """Apply all changes; the living columns."""
        is_same_layout = self._cards is not None and self._label_count == len(self._rule_labels)
        if self._cards is None or not (is_same_layout and self._refill_columns()):
            self._cards = self._lay_out_columns()
        self._stale.clear()
        return self._cards

    def _lay_out_columns(self) -> CardTable:
        names = sorted(name for name in self._ledgers if self._is_shown(name))
        self._drop_labels()
        self.sites = [self._read_node(name) for name in names]
        self._number = {name: number for number, name in enumerate(names)}
        self._label_count = len(self._rule_labels)
        cards = build_columns(self.sites)
        # The rows of every node may have moved, so the running jobs of all nodes are read again.
        self.running.keep_only(names)
        for name in names:
            self._note_running_jobs(name, cards)
        return cards

    def _is_shown(self, name: str) -> bool:
        return name in self._hosts and name in self._ledgers and bool(self._ledgers[name].cards)

    def _refill_columns(self) -> bool:
        """Overwrite the numbers that changed; False if the columns must be laid out anew."""
        assert self._cards is not None
        for name in sorted(self._stale):
            is_shown = self._is_shown(name)
            if is_shown != (name in self._number):
                return False
            if not is_shown:
                continue
            number = self._number[name]
            site = self._read_node(name)
            # Labels, models and card states are shared by all rows, or are tuples of the table:
            # they cannot be overwritten for one node.
            if site.layout != self.sites[number].layout:
                return False
            self.sites[number] = site
            fill_columns(self._cards, number, site)
            self._note_running_jobs(name, self._cards)
        return True

    def _note_running_jobs(self, name: str, cards: CardTable) -> None:
        ledger = self._ledgers[name]
        first = int(np.searchsorted(cards.node, self._number[name]))
        rows = {card.uuid: first + offset for offset, card in enumerate(ledger.cards)}
        self.running.note_ledger(ledger, self._pods, rows)
