"""Gangs in the ledger: checked, encoded for a row, and what members are told of each other."""

from __future__ import annotations

from collections import Counter

from gpupool.allocations.store.gangs import GangRendezvous
from tests.support.gang_sizes import MANY


def test_the_variables_of_a_gang_are_worked_out_once_for_all_members() -> None:
    """Each member was told of all others by looking at all others: 20 s for 2,000."""
    looks = Counter[str]()

    class Member:
        launcher, cards, node, agent = False, 1, "node-1", "agent-1"
        dns_name = None

        def __init__(self, rank: int) -> None:
            self.gang_role, self._rank = "worker", rank

        @property
        def gang_rank(self) -> int:
            looks["rank"] += 1
            return self._rank

    class Gang:
        id, name = 7, "train"

    members = [Member(rank) for rank in range(MANY)]
    meeting = GangRendezvous(Gang(), members, {})
    told = [meeting.build_environment(member) for member in members]
    assert looks["rank"] <= 4 * MANY
    assert [one["RANK"] for one in told] == [str(rank) for rank in range(MANY)]
