"""What a job that grows finds kept for others on its own cards, and in the quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gpupool.base.errors import WrongState
from gpupool.model.claim import Rejection
from gpupool.model.quota import Amount
from gpupool.scheduling.fairness import Budget
from gpupool.scheduling.growth import Growth
from gpupool.scheduling.moves import free_beside_kept
from gpupool.scheduling.snapshot import Snapshot
from gpupool.scheduling.spare import Spare


class KeptHere(NamedTuple):
    """Of one card; `said` is for whom, as the job's tenant may know it."""

    milli: int
    memory_bytes: int
    said: str = ""


class Beside:
    """As the snapshot has it; nothing may be placed until the growth is written."""

    def __init__(self, snapshot: Snapshot, now_ns: int) -> None:
        self._snapshot, self._now_ns = snapshot, now_ns
        free = free_beside_kept(snapshot)
        self._spare = Spare(snapshot, free, now_ns)
        self._running = {job.job: job for job in snapshot.running}
        self._row = {uuid: row for row, uuid in enumerate(snapshot.cards.uuids)}
        self._moving_milli = snapshot.cards.free_milli - free.milli
        self._moving_bytes = snapshot.cards.free_bytes - free.size

    def on(self, name: str, uuid: str) -> KeptHere:
        """Nothing where the pool does not know the job or the card any more: a resize asks for that itself."""
        job, row = self._running.get(name), self._row.get(uuid)
        if job is None or row is None:
            return KeptHere(0, 0)
        until_ns = self._spare.stays(job)
        milli, size = self._spare.free_but_held(job, np.array([row]), until_ns)
        said = self._spare.said(job, row, until_ns)
        return KeptHere(int(self._moving_milli[row]) + milli, int(self._moving_bytes[row]) + size, said)

    def beyond_quota(self, name: str, more: Mapping[str, Amount]) -> Rejection | None:
        """Why no quota up to the pool has room for so much more on these cards. Raises WrongState."""
        return self._growth(name).refused(
            (self._row[uuid], each.gpu_milli, each.memory_bytes) for uuid, each in more.items()
        )

    def most(self, name: str) -> Budget:
        """How much more of each of its cards the quotas leave the job. Raises WrongState."""
        return self._growth(name).most()

    def _growth(self, name: str) -> Growth:
        if name not in self._running:
            # What a plan does not see, none of the numbers that it would be judged by counts.
            raise WrongState("not all cards of the job are known to the pool now", hint="gpupool gpus  shows them")
        return Growth(self._snapshot, self._running[name], self._spare, self._now_ns)
