"""Serves claims without a card: every card of the node is closed to them.

Variables hide the cards, and the supervisor's device cgroup, where there is one, closes them.
"""

from __future__ import annotations

from gpupool.mechanisms.bookkeeping import BookkeepingMechanism
from gpupool.mechanisms.contract import AllocationView
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.model.device import Device
from gpupool.model.enforcement import EnforcementLevels
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import MechanismOffer


class NoCard(BookkeepingMechanism):
    """Processors and main memory of a node, and none of its cards."""

    name = "no-card"
    summary = MechanismSummary(
        EnforcementLevels(),
        (HostKind.VM,),
        cards="none: the claim has no card, so there is nothing to divide",
        tested="contract suite; a busybox guest in QEMU",
    )

    def explain_refusal(self, view: AllocationView) -> str:
        return f"it has card {view.granted[0].device.uuid}" if view.granted else ""

    def explain_level(self, view: AllocationView) -> str:
        return "it has no card: there is nothing to limit"

    def describe_offer(self, device: Device, host: HostFacts) -> MechanismOffer | None:
        """Offer nothing for a card."""
        return None
