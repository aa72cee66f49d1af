"""Entries of a ledger for tests of what is billed."""

from __future__ import annotations

from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.model.allocation import Seat


def entry(uid: str, milli: int = 300, tenant: str = "team", card: str = "GPU-0") -> Entry:
    return Entry(
        uid, "space", uid, "main", (Seat(card, milli, 1 << 30),), tenant, account="default"
    )
