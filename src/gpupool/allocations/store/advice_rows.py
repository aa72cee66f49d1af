"""What an advice policy changes of a claim, as a value and as a row. Each function is part of a transaction."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from gpupool.allocations.store.advice_tables import advice_claims
from gpupool.base.units import format_share
from gpupool.store.database import WriteTransaction

APPLIED: Final = "applied"
PROPOSED: Final = "proposed"
#: A proposal for a running job that no policy makes any more.
LAPSED: Final = "lapsed"
#: The claim refuses advice.
EXACT: Final = "exact"
#: A share that was too small waits for room.
WAITS: Final = "waits"
#: A share that was too small is again what was asked for.
RETURNED: Final = "returned"


@dataclass(frozen=True)
class AdvisedShare:
    """What each card of a claim was asked for, and what it gets or would get."""

    policy: str
    state: str
    asked_milli: int
    asked_bytes: int | None
    gpu_milli: int
    memory_bytes: int | None

    def write_event_data(self, name: str) -> dict[str, Any]:
        """Build the data of an event."""
        return {
            "name": name,
            "asked": format_share(self.asked_milli, self.asked_bytes, 1),
            "share": format_share(self.gpu_milli, self.memory_bytes, 1),
            "gpu_milli": self.gpu_milli,
            "memory_bytes": self.memory_bytes,
            "policy": self.policy,
            "state": self.state,
        }


def insert_advised_share(
    write: WriteTransaction, claim_id: int, share: AdvisedShare | None
) -> None:
    """Write what was changed of a claim; None: nothing was."""
    if share is not None:
        write.execute(advice_claims.insert(), {"claim_id": claim_id, **asdict(share)})


def write_advised_event(
    write: WriteTransaction, share: AdvisedShare | None, job: str, name: str, tenant_id: int
) -> None:
    """Write the event `job.advised` or `job.advice-proposed`."""
    if share is None or share.state == EXACT:
        return
    kind = "job.advised" if share.state == APPLIED else "job.advice-proposed"
    write.event(kind, job, tenant_id=tenant_id, data=share.write_event_data(name))
