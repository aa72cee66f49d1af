"""Allocations that no job asked for, to learn from refusals what a mechanism serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpupool.base.units import WHOLE
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat, Mechanism
from gpupool.mechanisms.offers.summaries import MechanismSummary, summarize_mechanism
from gpupool.model.claim import NAMED_KINDS, SharingKind
from gpupool.model.device import Device
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass
from gpupool.model.partition import PartitionProfile

#: Stands for the cgroup of a job: it is in the same hierarchy.
_CGROUP = "/sys/fs/cgroup/gpupool-probe"
_UNNAMED = "no host of this node can be given the card in this way"


@dataclass(frozen=True)
class MechanismProbe:
    """A mechanism that is asked about one card of one node."""

    mechanism: Mechanism
    device: Device
    host: HostFacts

    @property
    def summary(self) -> MechanismSummary:
        """What the mechanism says of itself."""
        return summarize_mechanism(self.mechanism)

    def find_sizes(self) -> SizeClass | None:
        """Return the widest class of sizes that is not refused; None where all are."""
        for sizes in SizeClass:
            if not self.explain_refusal(sizes):
                return sizes
        return None

    def list_sharing(self, sizes: SizeClass) -> tuple[str, ...]:
        """Return the kinds of sharing that are served; empty for all."""
        if sizes is SizeClass.PROFILES:
            return ()
        served = list[str]()
        for sharing in self._list_words():
            if not self._find_refusal(sizes, sharing):
                served.append(sharing)
        if set(served) >= set(SharingKind) - NAMED_KINDS:
            return ()
        # Its own name counts only for a mechanism that claims must ask for by name.
        known = tuple(word for word in served if word in set(SharingKind))
        return known or tuple(served)

    def explain_refusal(self, sizes: SizeClass) -> str:
        """Return why no claim of that size is served; empty if one is."""
        first = ""
        for sharing in self._list_words():
            refusal = self._find_refusal(sizes, sharing)
            if not refusal:
                return ""
            first = first or refusal
        return first

    def _list_words(self) -> tuple[str, ...]:
        unnamed = [str(kind) for kind in SharingKind if kind not in NAMED_KINDS]
        return self.summary.sharing or (*unnamed, self.mechanism.name)

    def _find_refusal(self, sizes: SizeClass, sharing: str) -> str:
        first = ""
        for view in self._iterate_views(sizes, sharing):
            refusal = self.mechanism.explain_refusal(view)
            if not refusal:
                return ""
            first = first or refusal
        if first:
            return first
        return "no profile of this card is known" if sizes is SizeClass.PROFILES else _UNNAMED

    def _iterate_views(self, sizes: SizeClass, sharing: str) -> Iterator[AllocationView]:
        kinds = self.summary.hosts
        # Of a node that has none of its hosts the mechanism still says what the card lacks.
        kinds = tuple(kind for kind in kinds if kind in self.host.hosts) or kinds
        profiles: tuple[PartitionProfile | None, ...] = (None,)
        if sizes is SizeClass.PROFILES:
            profiles = self.mechanism.list_profiles(self.device)
        for kind in kinds:
            for profile in profiles:
                yield build_probe_view(self.device, self.host, sizes, kind, profile, sharing)


def build_probe_view(
    device: Device,
    host: HostFacts,
    sizes: SizeClass,
    kind: HostKind,
    profile: PartitionProfile | None = None,
    sharing: str = "fixed",
) -> AllocationView:
    """Build an allocation of that size on a card.

    Args:
        kind: what the allocation is handed to.
        profile: the profile, for a partition.
    """
    milli = WHOLE if sizes is SizeClass.WHOLE else WHOLE // 2
    # Shares are counted in whole MiB.
    size = device.memory_bytes if sizes is SizeClass.WHOLE else device.memory_bytes // 2 >> 20 << 20
    grant = GrantedDevice(device, milli, size)
    if profile is not None:
        grant = GrantedDevice(device, profile.gpu_milli, profile.memory_bytes, profile=profile.name)
    return AllocationView(
        pool="",
        allocation="probe",
        generation=1,
        job="probe",
        tenant="probe",
        sharing=sharing,
        granted=(grant,),
        node_devices=(device,),
        seat=JobSeat(own_pool=host.own_pool, container=kind is HostKind.CONTAINER),
        machine=Path(host.machine) if device.simulated and host.machine else None,
        host=kind,
        cgroups=() if host.cgroups == "none" else (_CGROUP,),
    )
