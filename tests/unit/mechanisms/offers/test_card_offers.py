"""What the mechanisms of a registry offer for a card."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms import card_modes
from gpupool.mechanisms.bookkeeping import BookkeepingMechanism
from gpupool.mechanisms.contract import AllocationView
from gpupool.mechanisms.offers import card_offers
from gpupool.mechanisms.offers.card_offers import (
    describe_layer,
    describe_mechanism,
    list_card_offers,
    list_node_offers,
)
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.share import CountedShare
from gpupool.mechanisms.whole import WholeCards
from gpupool.model.device import CardMode, Device, ModeNeed, ModeOffer
from gpupool.model.enforcement import EnforcementLevels, FenceLevel, spread_level
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import (
    LayerOffer,
    MechanismOffer,
    OfferAvailability,
    SizeClass,
)
from gpupool.model.partition import PartitionProfile
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.probes.simulated import parse_sim

ROOT = HostFacts(root=True, own_pool=False, cgroups="v2", cgroup_version=2)
SIMULATED = parse_sim("2xH200")[0].devices[0]
REAL = replace(SIMULATED, simulated=False, device_paths=("/dev/nvidia0",), partitioned=False)


class Partitions(BookkeepingMechanism):
    """A mechanism that says nothing of offers: all follows from what it refuses."""

    name = "partitions"

    def fence_level(self) -> FenceLevel:
        return FenceLevel.HARD

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        return list_mig_profiles("H200") if device.mode is CardMode.MIG else ()

    def explain_refusal(self, view: AllocationView) -> str:
        profile = view.granted[0].profile
        return "" if profile else "it cuts profiles alone"


class SwitchToMig:
    """A switch that every card has."""

    mode = CardMode.MIG

    def __init__(self, blocked_by: str = "") -> None:
        self.blocked_by = blocked_by

    def describe_offer(self, device: Device) -> ModeOffer | None:
        return ModeOffer(CardMode.MIG, ModeNeed.RESET, 30.0, self.blocked_by)


@pytest.fixture(autouse=True)
def no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that can switch no card to another mode."""
    monkeypatch.setattr(card_modes, "SWITCHES", MappingProxyType({}))


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> SwitchToMig:
    found = SwitchToMig()
    monkeypatch.setattr(card_modes, "SWITCHES", MappingProxyType({CardMode.MIG: found}))
    return found


def test_a_mechanism_that_says_nothing_is_never_available_without_a_switch() -> None:
    (offer,) = describe_mechanism(Partitions(), REAL, ROOT)
    assert offer.availability is OfferAvailability.NEVER
    assert offer.why == "it cuts profiles alone"


def test_it_is_available_after_a_switch_that_the_node_has(switch: SwitchToMig) -> None:
    (offer,) = describe_mechanism(Partitions(), REAL, ROOT)
    assert offer.availability is OfferAvailability.AFTER_SWITCH
    assert offer.switch == ModeOffer(CardMode.MIG, ModeNeed.RESET, 30.0)
    assert offer.sizes is SizeClass.PROFILES
    assert offer.levels == spread_level(FenceLevel.HARD)
    assert [one.name for one in offer.profiles][:1] == ["1g.18gb"]


def test_reasons_name_no_card_so_that_cards_that_are_alike_have_equal_offers() -> None:
    class Picky(Partitions):
        def explain_refusal(self, view: AllocationView) -> str:
            return f"{view.granted[0].device.uuid} is in use"

    (offer,) = describe_mechanism(Picky(), REAL, ROOT)
    assert offer.why == "the card is in use"


def test_a_mode_that_cannot_be_entered_cannot_be_left(switch: SwitchToMig) -> None:
    switch.blocked_by = "the driver is gone"
    (whole,) = describe_mechanism(WholeCards(), replace(REAL, partitioned=True), ROOT)
    assert whole.availability is OfferAvailability.NEVER
    assert whole.why == "the driver is gone"


def test_a_blocked_switch_makes_it_unavailable_with_the_reason(switch: SwitchToMig) -> None:
    switch.blocked_by = "process 812 holds the card"
    (offer,) = describe_mechanism(Partitions(), REAL, ROOT)
    assert offer.availability is OfferAvailability.NEVER
    assert offer.why == "process 812 holds the card"


def test_a_card_in_its_mode_has_it_now_and_other_mechanisms_after_leaving(
    switch: SwitchToMig,
) -> None:
    card = replace(REAL, mode=CardMode.MIG, partitioned=True)
    (offer,) = describe_mechanism(Partitions(), card, ROOT)
    assert offer.availability is OfferAvailability.NOW
    (whole,) = describe_mechanism(WholeCards(), card, ROOT)
    assert whole.availability is OfferAvailability.AFTER_SWITCH
    assert whole.switch == ModeOffer(CardMode.PLAIN, ModeNeed.RESET, 30.0)
    (counted,) = describe_mechanism(CountedShare(), card, ROOT)
    assert counted.availability is OfferAvailability.AFTER_SWITCH
    assert counted.mode is CardMode.PLAIN


def test_a_card_whose_mode_the_node_cannot_leave_has_no_whole_card() -> None:
    card = replace(REAL, partitioned=True)
    (whole,) = describe_mechanism(WholeCards(), card, ROOT)
    assert whole.availability is OfferAvailability.NEVER
    assert whole.why == "this node cannot switch the card to plain"


@pytest.mark.parametrize(
    ("host", "paths", "level"),
    [
        (ROOT, ("/dev/nvidia0",), FenceLevel.HARD),
        (ROOT, (), FenceLevel.ADVISORY),
        (replace(ROOT, cgroups="none"), ("/dev/nvidia0",), FenceLevel.ADVISORY),
        (replace(ROOT, own_pool=True), ("/dev/nvidia0",), FenceLevel.ADVISORY),
    ],
)
def test_a_whole_card_is_as_safe_as_its_device_node_is_closed(
    host: HostFacts, paths: tuple[str, ...], level: FenceLevel
) -> None:
    (offer,) = describe_mechanism(WholeCards(), replace(REAL, device_paths=paths), host)
    assert (offer.levels.memory, offer.levels.fault) == (level, level)
    assert offer.sharing == ("fixed", "burst")


def test_a_users_own_pool_holds_nothing_softly() -> None:
    class Softly(Partitions):
        summary = MechanismSummary(spread_level(FenceLevel.SOFT))

        def explain_refusal(self, view: AllocationView) -> str:
            return ""

    (offer,) = describe_mechanism(Softly(), REAL, replace(ROOT, own_pool=True))
    assert offer.levels == spread_level(FenceLevel.ADVISORY)
    assert "one user" in offer.why


def test_a_mechanism_for_vms_needs_a_node_that_runs_vms() -> None:
    class ForVms(Partitions):
        summary = MechanismSummary(spread_level(FenceLevel.HARD), (HostKind.VM,))

        def explain_refusal(self, view: AllocationView) -> str:
            return "" if view.host is HostKind.VM else "it serves VMs"

    (offer,) = describe_mechanism(ForVms(), REAL, ROOT)
    assert offer.availability is OfferAvailability.NEVER
    assert offer.why == "it needs a vm as host, which this node does not run"
    node = replace(ROOT, hosts=(HostKind.PROCESS, HostKind.VM))
    (offer,) = describe_mechanism(ForVms(), REAL, node)
    assert (offer.availability, offer.hosts) == (OfferAvailability.NOW, (HostKind.VM,))


def test_a_simulated_card_is_held_by_vms_and_a_real_one_must_leave_its_driver_first() -> None:
    runs_vms = replace(ROOT, hosts=(HostKind.PROCESS, HostKind.VM))
    for device, hosts in (
        (SIMULATED, (HostKind.PROCESS, HostKind.VM)),
        (REAL, (HostKind.PROCESS,)),
    ):
        (offer,) = describe_mechanism(WholeCards(), device, runs_vms)
        assert offer.hosts == hosts
    (offer,) = describe_mechanism(WholeCards(), SIMULATED, ROOT)
    assert offer.hosts == (HostKind.PROCESS,)


def test_a_mechanism_may_describe_its_offer_itself() -> None:
    class Itself(Partitions):
        def describe_offer(self, device: Device, host: HostFacts) -> MechanismOffer | None:
            return MechanismOffer("itself", one_owner=True) if device.simulated else None

    assert describe_mechanism(Itself(), REAL, ROOT) == ()
    assert describe_mechanism(Itself(), SIMULATED, ROOT) == (
        MechanismOffer("itself", one_owner=True),
    )


def test_a_mechanism_may_serve_a_word_of_sharing_that_claims_of_today_lack() -> None:
    class Together(Partitions):
        name = "mps"
        summary = MechanismSummary(spread_level(FenceLevel.SOFT), one_owner=True)

        def explain_refusal(self, view: AllocationView) -> str:
            return "" if view.sharing == "mps" else f"sharing {view.sharing}"

    (offer,) = describe_mechanism(Together(), REAL, ROOT)
    assert (offer.availability, offer.sharing) == (OfferAvailability.NOW, ("mps",))
    assert offer.one_owner


class MemoryLayer:
    """A layer that is added to processes alone."""

    name = "memory-layer"
    summary = MechanismSummary(EnforcementLevels(memory=FenceLevel.HARD), mechanisms=("fence",))

    def explain_absence(self, view: AllocationView) -> str:
        return "" if view.host is HostKind.PROCESS else "processes alone"


def test_a_layer_is_asked_for_each_host_of_the_node() -> None:
    layer: card_offers.Layer = MemoryLayer()  # type: ignore[assignment]
    expected = LayerOffer("memory-layer", EnforcementLevels(memory=FenceLevel.HARD), ("fence",))
    assert describe_layer(layer, REAL, ROOT) == expected
    vms = replace(ROOT, hosts=(HostKind.VM,))
    assert describe_layer(layer, REAL, vms) == replace(expected, absence="processes alone")


def test_of_several_hosts_the_reason_of_processes_is_shown() -> None:
    class Absent(MemoryLayer):
        def explain_absence(self, view: AllocationView) -> str:
            return f"not for a {view.host}"

    layer: card_offers.Layer = Absent()  # type: ignore[assignment]
    node = replace(ROOT, hosts=(HostKind.PROCESS, HostKind.VM))
    assert describe_layer(layer, REAL, node).absence == "not for a process"


def test_offers_come_in_the_order_of_the_registry_and_alike_cards_are_asked_once() -> None:
    offers = list_card_offers(SIMULATED, ROOT)
    names = [one.name for one in offers.mechanisms]
    order = list(card_offers.MECHANISMS)
    assert names == sorted(names, key=order.index)
    assert {"whole", "fence", "share"} <= set(names)
    devices = parse_sim("2xH200")[0].devices
    both = list_node_offers(devices, ROOT)
    assert both[devices[0].uuid] is both[devices[1].uuid]
    assert both[devices[0].uuid] == offers
    (whole,) = (one for one in offers.mechanisms if one.name == "whole")
    assert whole.why.startswith("a simulated card is shown to its job alone")


def test_a_mechanism_that_fails_to_answer_is_not_available() -> None:
    class Broken(Partitions):
        def explain_refusal(self, view: AllocationView) -> str:
            raise ServiceUnavailable("the driver does not answer")

    (offer,) = describe_mechanism(Broken(), REAL, ROOT)
    assert offer.availability is OfferAvailability.NEVER
    assert "the driver does not answer" in offer.why

    class BrokenLayer(MemoryLayer):
        def explain_absence(self, view: AllocationView) -> str:
            raise OSError("no such file")

    layer: card_offers.Layer = BrokenLayer()  # type: ignore[assignment]
    assert describe_layer(layer, REAL, ROOT).absence == "it could not be asked: no such file"


def test_a_card_that_is_cut_into_agents_serves_what_it_serves_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class SwitchToCpx(SwitchToMig):
        mode = CardMode.CPX

        def describe_offer(self, device: Device) -> ModeOffer | None:
            return ModeOffer(CardMode.CPX, ModeNeed.IDLE_BOARD)

    monkeypatch.setattr(card_modes, "SWITCHES", MappingProxyType({CardMode.CPX: SwitchToCpx()}))
    plain = replace(REAL, vendor="amd", partitioned=None)
    for mechanism in (WholeCards(), CountedShare()):
        for mode in (CardMode.PLAIN, CardMode.CPX):
            (offer,) = describe_mechanism(mechanism, replace(plain, mode=mode), ROOT)
            assert (offer.availability, offer.mode) == (OfferAvailability.NOW, mode)
