"""What a growing job finds held for others on its own cards and in the quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gpupool.base.errors import WrongState
from gpupool.base.units import format_share
from gpupool.model.claim import Rejection
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling import (
    QuotaHeadroom,
    ResizeHeadroom,
    Snapshot,
    UnreservedCapacity,
    measure_kept_before,
    measure_unheld_capacity,
)


class CardHolds(NamedTuple):
    """What is held for others on one card."""

    milli: int
    memory_bytes: int
    #: A sentence that names the holder, as far as the job's tenant may know it.
    holder: str = ""


class JobResizeHeadroom:
    """Headroom for one resize. Placement must pause until the resize is written."""

    def __init__(self, snapshot: Snapshot, now_ns: int) -> None:
        self._snapshot = snapshot
        self._now_ns = now_ns
        free = measure_unheld_capacity(snapshot)
        self._spare = UnreservedCapacity(snapshot, free, now_ns)
        self._running = {job.job: job for job in snapshot.running}
        self._row = {uuid: row for row, uuid in enumerate(snapshot.cards.uuids)}
        # What is free by the ledger and not by the scheduler is held for jobs that migrate.
        self._moving_milli = snapshot.cards.free_milli - free.milli
        self._moving_bytes = snapshot.cards.free_bytes - free.size

    def find_holds(self, name: str, uuid: str) -> CardHolds:
        """Return what is held for others on a card; nothing if the job or the card is unknown."""
        job = self._running.get(name)
        row = self._row.get(uuid)
        if job is None or row is None:
            return CardHolds(0, 0)
        until_ns = self._spare.compute_end_in_place(job)
        milli, size = self._spare.sum_held_free(job, np.array([row]), until_ns)
        holder = self._spare.describe_hold(job, row, until_ns)
        kept = measure_kept_before(self._snapshot, name)
        kept_milli = int(kept.milli[row])
        kept_bytes = int(kept.size[row])
        if kept_milli or kept_bytes:
            share = format_share(kept_milli, kept_bytes)
            away = f"{share} of it are kept for jobs that are suspended while idle"
            holder = f"{holder}; {away}" if holder else away
        return CardHolds(
            int(self._moving_milli[row]) + milli + kept_milli,
            int(self._moving_bytes[row]) + size + kept_bytes,
            holder,
        )

    def explain_quota_shortage(
        self, name: str, more: Mapping[str, ResourceAmount]
    ) -> Rejection | None:
        """Return why the quotas have too little for the growth; None if they have enough.

        Raises:
            WrongState: The pool does not know all cards of the job now.
        """
        headroom = self._build_headroom(name)
        rows = [(self._row[uuid], each.gpu_milli, each.memory_bytes) for uuid, each in more.items()]
        return headroom.find_rejection(rows)

    def find_quota_room(self, name: str) -> QuotaHeadroom:
        """Return how much more of each of its cards the quotas leave the job.

        Raises:
            WrongState: The pool does not know all cards of the job now.
        """
        return self._build_headroom(name).get_most()

    def _build_headroom(self, name: str) -> ResizeHeadroom:
        if name not in self._running:
            # A snapshot leaves out a job of which a card is absent, so the amounts that it holds
            # are missing from every number here.
            raise WrongState(
                "not all cards of the job are known to the pool now",
                hint="gpupool gpus  shows them",
            )
        return ResizeHeadroom(self._snapshot, self._running[name], self._spare, self._now_ns)
