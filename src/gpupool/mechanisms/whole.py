"""Serves whole cards: the job has them alone, and the node's other cards are hidden from it.

A card with one user needs no limits. The level `fence: none` is about the other cards: environment
variables hide them, and only the supervisor's device cgroup, where there is one, closes them.
"""

from __future__ import annotations

from gpupool.base.units import WHOLE
from gpupool.mechanisms.bookkeeping import BookkeepingMechanism
from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.partition import find_partition_problem
from gpupool.model.claim import SharingKind
from gpupool.model.device import COMPUTE_PARTITION_MODES, CardMode, Device
from gpupool.model.enforcement import EnforcementLevels, FenceLevel
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import MechanismOffer, SizeClass


class WholeCards(BookkeepingMechanism):
    """Cards with all their compute and all their memory, for one job."""

    name = "whole"
    #: Between tenants: no other one is on the card, as long as none can open it.
    summary = MechanismSummary(
        EnforcementLevels(FenceLevel.HARD, FenceLevel.HARD, FenceLevel.HARD, FenceLevel.HARD),
        (HostKind.PROCESS, HostKind.CONTAINER),
        SizeClass.WHOLE,
        "all; in a pool of root with device rules in cgroups, else the levels are advisory",
        "contract suite on simulated cards; device rules on nodes of the kernel; no real card",
    )

    def explain_refusal(self, view: AllocationView) -> str:
        if problem := find_partition_problem(view):
            return problem
        if view.sharing in (SharingKind.BEST_EFFORT, SharingKind.OFFLINE):
            return "a share without promised compute never has a card for itself"
        for grant in view.granted:
            if not is_whole(grant):
                return f"{grant.device.uuid} is granted in part"
        return "" if view.granted else "it has no card"

    def explain_level(self, view: AllocationView) -> str:
        return "whole cards: there is nothing to limit"

    def describe_offer(self, device: Device, host: HostFacts) -> MechanismOffer:
        """Offer the whole card: as far as no other job can open it, no tenant disturbs another."""
        levels = self.summary.levels
        hosts = self.summary.hosts
        why = ""
        if device.simulated:
            levels = _SHOWN_ALONE
            # A virtual machine holds it and sees nothing of it; a real card must leave its driver.
            hosts = (*hosts, HostKind.VM)
            why = "a simulated card is shown to its job alone, and no kernel closes it to others"
        elif not (host.closes_devices and device.device_paths):
            levels = _HIDDEN
            why = "variables hide the card from other jobs; no device rule closes it"
        return MechanismOffer(
            self.name,
            levels,
            hosts,
            SizeClass.WHOLE,
            why=why,
            mode=device.mode if device.mode in COMPUTE_PARTITION_MODES else CardMode.PLAIN,
            sharing=(SharingKind.FIXED, SharingKind.BURST),
        )


#: No device rule closes the card to other jobs: a program that ignores its variables can open it.
_HIDDEN = EnforcementLevels(
    FenceLevel.ADVISORY, FenceLevel.ADVISORY, FenceLevel.ADVISORY, FenceLevel.ADVISORY
)
#: Unmodified programs find their own simulated card alone.
_SHOWN_ALONE = EnforcementLevels(FenceLevel.SOFT, FenceLevel.SOFT, FenceLevel.SOFT, FenceLevel.SOFT)


def is_whole(grant: GrantedDevice) -> bool:
    """Whether all of a card's compute and memory is granted; memory in whole MiB, as in claims."""
    # A card's memory is seldom a whole number of MiB, and a claim cannot name the rest.
    return grant.gpu_milli == WHOLE and grant.memory_bytes >> 20 == grant.device.memory_bytes >> 20
