"""Compares the GPU time that a card reports for an allocation with the time that the arbiter
granted. Pure.

Two accounts of one promise by two clocks that the tenant cannot write: the card counts what the
processes used, the arbiter counts what the allocation earned and what it paid. The tenant's own
usage page is not read here.

* A `fixed` share is found if it used more than its share *and* the arbiter does not know of it. A program within its
  share is never found, however wrong a measurement is; neither is a long kernel or a debt that the arbiter knows and
  let arise. A debt of work that began without a grant is none of those, though the program tells of it.
* Any other share is found if it used more than it paid while another allocation wanted the card.
  What it uses of an idle card is no tenant's loss and counts for nothing.

Both must hold by more than a tolerance and for several looks in a row. Rule and figures:
docs/decisions/0020-audit-of-gpu-time.md.

Imports no probe and no /proc; time is an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.mechanisms.arbiter import ShareStatus
from gpupool.mechanisms.regions import DeviceLimit

#: Nanoseconds by which both accounts must disagree: a lease and the reading of two clocks, with a
#: margin.
TOLERANCE_NS: Final = 500_000_000
#: The same on a real card, whose driver samples a process's use each 1/6 to 1 s, in whole percents.
SAMPLED_TOLERANCE_NS: Final = 2_000_000_000
#: Part of the card that a fixed share may have beyond its share without being found. The limiter's
#: worst error above a share is 1.5 points in virtual time (docs/measured/limiter-2026-11-23.md); on
#: a real card it was never measured.
SLACK: Final = 0.10
#: Part of the contested time that another share may use unpaid. While others wait a lease is paid
#: by the wall clock, so a measurement that is wrong changes nothing here.
CONTESTED_SLACK: Final = 0.05
#: The same by a real driver's samples.
SAMPLED_SLACK: Final = 0.10
#: The arbiter believes in one piece of work for 60 s. A debt beyond that is found whatever the
#: arbiter knows.
LONGEST_DEBT_NS: Final = 61 * NANOS_PER_SECOND
#: Looks in a row, and nanoseconds from the first to the last of them, before a difference counts.
LOOKS: Final = 3
LASTING_NS: Final = NANOS_PER_SECOND
#: What an idle allocation saves up: as the arbiter's ARB_DEPTH_NS and ARB_LAG_NS.
DEPTH_NS: Final = 20_000_000
LAG_NS: Final = 100_000_000


@dataclass
class _ShareAccount:
    """One allocation on one card, as of the last look.

    `card_ns`: what its promise is worth by the card's figures. `excess_ns`: what it had beyond its
    share and the slack. `unpaid_ns`: what it had of contested time and did not pay. `ungranted_ns`:
    the part of its debt that it was not let into.
    """

    mark: object
    at_ns: int
    seen: dict[int, int]
    said: ShareStatus
    card_ns: float = 0.0
    excess_ns: float = 0.0
    unpaid_ns: float = 0.0
    ungranted_ns: int = 0
    suspect_since_ns: int | None = None
    suspect_looks: int = 0


@dataclass(frozen=True)
class _LookStep:
    """What happened between two looks: the time that passed, and what the card gave."""

    elapsed_ns: int
    had_ns: int
    said: ShareStatus
    ungranted_ns: int
    sampled: bool

    @property
    def tolerance_ns(self) -> int:
        return SAMPLED_TOLERANCE_NS if self.sampled else TOLERANCE_NS


@dataclass
class TimeAudit:
    """Keeps the accounts of all allocations of a node, by allocation and card. Not thread-safe."""

    _accounts: dict[tuple[str, str], _ShareAccount] = field(default_factory=dict)

    def add_look(
        self,
        limit: DeviceLimit,
        used_ns: Mapping[int, int],
        said: ShareStatus,
        now_ns: int,
        *,
        ended_ns: int = 0,
        mark: object = None,
        sampled: bool = False,
    ) -> str:
        """Take one look at a share; the difference in words if it is found, else an empty string.

        Args:
            used_ns: What the card says each process had since it came, by pid.
            said: What the arbiter says of the same allocation on the same card.
            ended_ns: What processes had since the last look that have ended, beyond what it was told of them.
            mark: The arbiter and the generation of the limits; a change restarts the account.
            sampled: The card's figures are a real driver's samples.
        """
        key = (said.allocation, limit.uuid)
        account = self._accounts.get(key)
        if account is None or account.mark != mark or now_ns <= account.at_ns:
            self._accounts[key] = _ShareAccount(mark, now_ns, dict(used_ns), said)
            return ""
        ungranted_ns = max(0, said.ungranted_ns - account.said.ungranted_ns)
        had_ns = _sum_growth(account.seen, used_ns) + ended_ns
        step = _LookStep(now_ns - account.at_ns, had_ns, said, ungranted_ns, sampled)
        rule = _measure_beyond_share if limit.sharing == "fixed" else _measure_beyond_paid
        beyond_ns = rule(account, limit, step)
        account.at_ns = now_ns
        account.seen = dict(used_ns)
        account.said = said
        if not _is_lasting(account, now_ns, found=bool(step.had_ns) and beyond_ns > 0):
            return ""
        beyond = round(beyond_ns / 1e6)
        return f"its processes had {beyond} ms of card {limit.uuid} more than they were granted and have told of"

    def keep_only(self, live: Collection[str]) -> None:
        """Forget every allocation that is not in `live`."""
        gone = [key for key in self._accounts if key[0] not in live]
        for key in gone:
            del self._accounts[key]


def _measure_beyond_share(account: _ShareAccount, limit: DeviceLimit, step: _LookStep) -> float:
    """Return how much more a fixed share had than the arbiter knows of; 0 while it may be in order.

    The formulas are those of docs/decisions/0020-audit-of-gpu-time.md.
    """
    share = limit.gpu_milli / 1000
    most = DEPTH_NS + LAG_NS * share
    account.card_ns = min(most, account.card_ns + share * step.elapsed_ns - step.had_ns)
    account.excess_ns = max(
        0.0, account.excess_ns + step.had_ns - (share + SLACK) * step.elapsed_ns
    )
    # A debt of work that began without a grant is no debt that the arbiter let arise.
    debt_ns = max(0, -step.said.owns_ns - step.said.flight_ns)
    account.ungranted_ns = min(debt_ns, account.ungranted_ns + step.ungranted_ns)
    unknown_ns = step.said.owns_ns + account.ungranted_ns - account.card_ns
    if account.excess_ns <= step.tolerance_ns:
        return 0.0
    if unknown_ns > step.tolerance_ns:
        return unknown_ns
    return -account.card_ns if account.card_ns < -LONGEST_DEBT_NS else 0.0


def _measure_beyond_paid(account: _ShareAccount, _limit: DeviceLimit, step: _LookStep) -> float:
    """Return the contested time that a share had and did not pay; 0 while it may be in order.

    Work in flight may be running and is paid when it ends, so it is believed until then, for 60 s
    at most. Time that was taken without a lease stays taken, even if it is paid afterwards.
    """
    alone_ns = min(max(0, step.said.alone_ns - account.said.alone_ns), step.elapsed_ns)
    contested_ns = step.elapsed_ns - alone_ns
    had_ns = max(0, min(step.had_ns, step.elapsed_ns) - alone_ns)
    slack = SAMPLED_SLACK if step.sampled else CONTESTED_SLACK
    paid_ns = max(0, step.said.paid_ns - account.said.paid_ns) - step.ungranted_ns
    account.unpaid_ns = max(0.0, account.unpaid_ns + had_ns - slack * contested_ns - paid_ns)
    unknown_ns = account.unpaid_ns - step.said.flight_ns
    if unknown_ns > step.tolerance_ns:
        return unknown_ns
    return account.unpaid_ns if account.unpaid_ns > LONGEST_DEBT_NS else 0.0


def _is_lasting(account: _ShareAccount, now_ns: int, *, found: bool) -> bool:
    """Whether a difference was found in enough looks in a row, over enough time."""
    if not found:
        account.suspect_since_ns = None
        account.suspect_looks = 0
        return False
    account.suspect_looks += 1
    since = account.suspect_since_ns = account.suspect_since_ns or now_ns
    return account.suspect_looks >= LOOKS and now_ns - since >= LASTING_NS


def _sum_growth(before: Mapping[int, int], now: Mapping[int, int]) -> int:
    """Return the nanoseconds that were used between two looks."""
    total = 0
    for pid, ns in now.items():
        # A smaller figure of one pid is that of another process or another context.
        total += ns - before.get(pid, 0) if ns >= before.get(pid, 0) else ns
    return total
