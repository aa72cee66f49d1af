"""Compares the GPU time that a card reports for an allocation with the time that the arbiter granted. Pure.

Two accounts of one promise by two clocks that the tenant cannot write: the card counts what the processes used, the
arbiter counts what the allocation earned and what it paid. The tenant's own usage page is not read here. An
allocation is found if it used more than its share *and* the arbiter does not know of it, both by more than a
tolerance and for several looks in a row. A program within its share is never found, however wrong a measurement is;
neither is a long kernel or a debt that the arbiter knows. Rule and figures: docs/decisions/0020-audit-of-gpu-time.md.

Imports no probe and no /proc; time is an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpupool.mechanisms.regions import DeviceLimit

#: Nanoseconds by which both accounts must disagree: a lease and the reading of two clocks, with a margin.
TOLERANCE_NS: Final = 500_000_000
#: The same on a real card, whose driver samples a process's use each 1/6 to 1 s, in whole percents.
SAMPLED_TOLERANCE_NS: Final = 2_000_000_000
#: Part of the card that an allocation may have beyond its share without being found. The limiter's worst error that is
#: known is 8 points: kernels of 5 or 30 us, unseen waits after each 4.
SLACK: Final = 0.10
#: The arbiter believes in one piece of work for 60 s. A debt beyond that is found whatever the arbiter knows.
LONGEST_DEBT_NS: Final = 61_000_000_000
#: Looks in a row, and nanoseconds from the first to the last of them, before a difference counts.
LOOKS: Final = 3
LASTING_NS: Final = 1_000_000_000
#: What an idle allocation saves up: as the arbiter's ARB_DEPTH_NS and ARB_LAG_NS.
DEPTH_NS: Final = 10_000_000
LAG_NS: Final = 100_000_000


@dataclass
class _Account:
    """One allocation on one card. `card_ns`: what its promise is worth by the card's figures; `excess_ns`: what it had
    beyond its share and the slack.
    """

    mark: object
    at_ns: int
    seen: dict[int, int]
    card_ns: float = 0.0
    excess_ns: float = 0.0
    suspect_since_ns: int | None = None
    suspect_looks: int = 0


@dataclass
class TimeAudit:
    """Keeps the accounts of all allocations of a node, by allocation and card. Not thread-safe."""

    _accounts: dict[tuple[str, str], _Account] = field(default_factory=dict)

    def look(
        self,
        allocation: str,
        limit: DeviceLimit,
        used_ns: Mapping[int, int],
        owns_ns: int,
        now_ns: int,
        *,
        mark: object = None,
        sampled: bool = False,
    ) -> str:
        """Take one look at a fixed share; the difference in words if it is found, else an empty string.

        Args:
            used_ns: What the card says each process had since it came, by pid.
            owns_ns: What the arbiter says is left of the promise, less the time in flight.
            mark: Whoever promised and how much; a change (a resize, another arbiter) restarts the account.
            sampled: The card's figures are a real driver's samples.
        """
        account = self._accounts.get((allocation, limit.uuid))
        if account is None or account.mark != mark or now_ns <= account.at_ns:
            self._accounts[allocation, limit.uuid] = _Account(mark, now_ns, dict(used_ns))
            return ""
        tolerance = SAMPLED_TOLERANCE_NS if sampled else TOLERANCE_NS
        elapsed, had = now_ns - account.at_ns, _grown(account.seen, used_ns)
        share = limit.gpu_milli / 1000
        account.at_ns, account.seen = now_ns, dict(used_ns)
        account.card_ns = min(DEPTH_NS + LAG_NS * share, account.card_ns + share * elapsed - had)
        account.excess_ns = max(0.0, account.excess_ns + had - (share + SLACK) * elapsed)
        unknown = owns_ns - account.card_ns > tolerance or account.card_ns < -LONGEST_DEBT_NS
        if not (had and unknown and account.excess_ns > tolerance):
            account.suspect_since_ns, account.suspect_looks = None, 0
            return ""
        account.suspect_looks += 1
        since = account.suspect_since_ns = account.suspect_since_ns or now_ns
        if account.suspect_looks < LOOKS or now_ns - since < LASTING_NS:
            return ""
        beyond = round((owns_ns - account.card_ns) / 1e6)
        return f"its processes had {beyond} ms of card {limit.uuid} more than they were granted and have told of"

    def forget(self, live: Collection[str]) -> None:
        """Keep these allocations alone."""
        for key in [key for key in self._accounts if key[0] not in live]:
            del self._accounts[key]


def _grown(before: Mapping[int, int], now: Mapping[int, int]) -> int:
    """What was used between two looks. A smaller figure of one pid is another process's, or another context's."""
    total = 0
    for pid, ns in now.items():
        total += ns - before.get(pid, 0) if ns >= before.get(pid, 0) else ns
    return total
