"""Selects the mechanism that prepares an allocation: the first of its plan that does not refuse.

The server plans by what the node offered; the mechanism's own refusal is final. No mechanism of a
plan is weaker than what the claim demands, so the next one may take the place of one that refuses.
A claim without a plan gets the first mechanism of the registry that serves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import AllocationView, EnforcementLevels, Mechanism
from gpupool.mechanisms.registry import MECHANISMS, choose_mechanism, find_on_record
from gpupool.model.enforcement import read_levels
from gpupool.model.isolation.claim_needs import read_needs
from gpupool.model.isolation.mechanism_offer import list_missing_levels
from gpupool.wire.fleet import WorkOut

#: Characters of a reason that a report carries.
REASON_LENGTH = 300
_OTHERWISE_PREPARED = "it refused when the allocation was prepared"


@dataclass(frozen=True)
class MechanismSelection:
    """What prepares an allocation.

    Attributes:
        refused: why mechanisms that the plan has before it cannot, by name.
        expected: the levels that the plan promises; None without a plan.
    """

    mechanism: Mechanism
    refused: Mapping[str, str] = field(default_factory=dict)
    expected: EnforcementLevels | None = None

    def describe_difference(self, reached: EnforcementLevels) -> str:
        """Return how what was prepared differs from the plan, for people; empty if it does not.

        Args:
            reached: what the mechanism and its layers enforce.
        """
        parts = [f"{name} refused: {reason}" for name, reason in self.refused.items()]
        for name in list_missing_levels(reached, self.expected or EnforcementLevels()):
            planned = getattr(self.expected, name)
            parts.append(f"{name} is {getattr(reached, name)}, {planned} was planned")
        return f"it has {self.mechanism.name}: {'; '.join(parts)}" if parts else ""


def select_mechanism(work: WorkOut, view: AllocationView, state_dir: Path) -> MechanismSelection:
    """Return the mechanism for an allocation; the one that has it on record stays.

    Raises:
        RequestRejection: no mechanism serves it as its claim demands; the message has the reason of
            each.
    """
    if not work.plan:
        return MechanismSelection(choose_mechanism(view))
    recorded = find_on_record(view.allocation, state_dir)
    refused = dict[str, str]()
    for planned in work.plan:
        mechanism = MECHANISMS.get(planned.mechanism)
        if mechanism is None:
            refused[planned.mechanism] = "this agent does not know it"
            continue
        reason = mechanism.explain_refusal(view)
        if recorded is not None and mechanism.name != recorded.name:
            reason = reason or _OTHERWISE_PREPARED
        if mechanism is recorded or not reason:
            return MechanismSelection(mechanism, _shorten(refused), read_levels(planned.holds))
        refused[planned.mechanism] = reason
    if recorded is not None:
        # The offers have changed since it was prepared; its levels are checked all the same.
        return MechanismSelection(recorded)
    if not read_needs(work.needs).is_demanding:
        # A goal is a preference: the job runs by a mechanism that was not planned, if one serves it.
        return MechanismSelection(choose_mechanism(view), _shorten(refused))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    raise RequestRejection(
        f"No mechanism of its plan can serve allocation {view.allocation}: {reasons}",
        hint="gpupool mechanisms shows what each card offers",
    )


def _shorten(reasons: Mapping[str, str]) -> dict[str, str]:
    return {name: reason[:REASON_LENGTH] for name, reason in reasons.items()}
