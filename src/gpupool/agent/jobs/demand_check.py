"""Refuses a job whose prepared cards are isolated less than its claim demands.

The scheduler placed the claim by what its node offered. What was prepared may be weaker, since a
driver was replaced or refused a limit; then the job must not start.
"""

from __future__ import annotations

from pathlib import Path

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import AllocationView, EnforcementLevels, Mechanism
from gpupool.mechanisms.offers.demands import (
    PreparedCard,
    explain_unmet_demand,
    find_reached_levels,
)
from gpupool.mechanisms.preparation import read_enforcement_levels
from gpupool.model.isolation.claim_needs import ClaimNeeds
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.mechanism_offer import weaken_levels


def check_demands(
    needs: ClaimNeeds,
    mechanism: Mechanism,
    view: AllocationView,
    *,
    host: HostFacts,
    state_dir: Path,
) -> EnforcementLevels:
    """Return what holds on every card of a prepared allocation.

    Raises:
        RequestRejection: a card is isolated less than the claim demands.
    """
    reported = read_enforcement_levels(mechanism, view.allocation, state_dir)
    weakest: EnforcementLevels | None = None
    for grant in view.granted:
        reached = find_reached_levels(PreparedCard(mechanism, grant.device, host), reported)
        unmet = explain_unmet_demand(needs, reached)
        if unmet:
            raise RequestRejection(
                f"isolation {needs.isolation} is not reached on {grant.device.uuid} "
                f"by {mechanism.name}: {unmet}",
                hint="gpupool mechanisms shows what each card enforces",
            )
        weakest = reached if weakest is None else weaken_levels(weakest, reached)
    return weakest or reported
