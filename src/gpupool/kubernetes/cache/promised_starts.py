"""Starts that the last plan promised to waiting claims, kept until the claims have their cards."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.scheduling import CardTable, ClassKey, Plan, PlannedStart, renumber_start


class PromisedStarts:
    """Promised starts by class of waiting pods.

    A start names its cards by their position in a list of cards. When the list changes, the
    positions are translated, and promises whose cards are gone are dropped.
    """

    def __init__(self) -> None:
        self.by_class: Mapping[ClassKey, PlannedStart] = {}
        #: The list of cards that the positions refer to.
        self._uuids: tuple[str, ...] | None = None

    def keep_promises(self, plan: Plan) -> None:
        """Replace the promises by those of `plan`.

        A firm promise whose claim the plan has placed is kept: the write of its ledger may still
        fail.
        """
        placed = {placement.gang or placement.job for placement in plan.placements}
        promises: dict[ClassKey, PlannedStart] = {}
        for key, start in self.by_class.items():
            if start.firm and start.claim in placed:
                promises[key] = start
        for key, start in plan.starts.items():
            if start.reserved:
                promises[key] = start
        self.by_class = promises

    def renumber_cards(self, cards: CardTable) -> Mapping[ClassKey, PlannedStart]:
        """The promises with positions in the list of `cards`."""
        if cards.uuids != self._uuids:
            promises: dict[ClassKey, PlannedStart] = {}
            for key, start in self.by_class.items():
                # A start that is not firm is computed anew by the next plan anyway.
                moved = renumber_start(start, cards) if start.firm else None
                if moved is not None:
                    promises[key] = moved
            self.by_class = promises
            self._uuids = cards.uuids
        return self.by_class
