"""Refuses a job whose prepared cards are isolated less than its claim demands.

The scheduler placed the claim by what its node offered. What was prepared may be weaker, since a
driver was replaced or refused a limit; then the job must not start.
"""

from __future__ import annotations

from pathlib import Path

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import AllocationView, Mechanism
from gpupool.mechanisms.offers.demands import PreparedCard, explain_unmet_demand
from gpupool.mechanisms.preparation import read_enforcement_levels
from gpupool.model.isolation.claim_needs import ClaimNeeds
from gpupool.model.isolation.host_facts import HostFacts


def check_demands(
    needs: ClaimNeeds,
    mechanism: Mechanism,
    view: AllocationView,
    *,
    host: HostFacts,
    state_dir: Path,
) -> None:
    """Raise RequestRejection where a card of a prepared allocation is isolated too little."""
    levels = read_enforcement_levels(mechanism, view.allocation, state_dir)
    for grant in view.granted:
        card = PreparedCard(mechanism, grant.device, host)
        unmet = explain_unmet_demand(needs, card, levels)
        if unmet:
            raise RequestRejection(
                f"isolation {needs.isolation} is not reached on {grant.device.uuid} "
                f"by {mechanism.name}: {unmet}",
                hint="gpupool mechanisms shows what each card enforces",
            )
