"""Asks every mechanism, layer and mode switch of the registry what it offers for a card.

A mechanism may define `describe_offer(device, host)` and answer itself. Of any other one the offer
follows from its summary and from the allocations that it refuses: a probe of each size, on the card
as it is and as it would be in each mode that it can be switched to. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

from gpupool.base.errors import GpupoolError
from gpupool.mechanisms.card_modes import list_mode_offers
from gpupool.mechanisms.contract import Layer, Mechanism
from gpupool.mechanisms.offers.probe_views import MechanismProbe, build_probe_view
from gpupool.mechanisms.offers.summaries import summarize_layer, summarize_mechanism
from gpupool.mechanisms.registry import LAYERS, MECHANISMS
from gpupool.model.device import (
    COMPUTE_PARTITION_MODES,
    MEMORY_PARTITION_MODES,
    CardMode,
    Device,
    DeviceHealth,
    ModeOffer,
)
from gpupool.model.enforcement import EnforcementLevels, FenceLevel
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.mechanism_offer import (
    CardOffers,
    LayerOffer,
    MechanismOffer,
    OfferAvailability,
    OfferedProfile,
    SizeClass,
)

_PARTITION_MODES = (*COMPUTE_PARTITION_MODES, *MEMORY_PARTITION_MODES)
#: Stands for the uuid of a card in reasons.
_THE_CARD = "the card"
_OWN_POOL = "job and pool are one user, so a program can lift the limits"


def list_card_offers(device: Device, host: HostFacts) -> CardOffers:
    """Return what this node offers for a card, in the order in which mechanisms are tried."""
    mechanisms = list[MechanismOffer]()
    for mechanism in MECHANISMS.values():
        mechanisms += describe_mechanism(mechanism, device, host)
    return CardOffers(
        tuple(mechanisms), tuple(describe_layer(layer, device, host) for layer in LAYERS)
    )


def list_node_offers(devices: Iterable[Device], host: HostFacts) -> dict[str, CardOffers]:
    """Return the offers of all cards of a node, by uuid.

    Simulated cards that differ in nothing but their name are asked once: a node may have hundreds.
    """
    found = dict[str, CardOffers]()
    alike = dict[Device, CardOffers]()
    for device in devices:
        if not device.simulated:
            found[device.uuid] = list_card_offers(device, host)
            continue
        kind = replace(
            device,
            uuid=_THE_CARD,
            index=0,
            pci_address=None,
            numa_node=None,
            device_paths=(),
            health=DeviceHealth.UNKNOWN,
            health_reason="",
            labels={},
            partitions=(),
        )
        if kind not in alike:
            alike[kind] = list_card_offers(device, host)
        found[device.uuid] = alike[kind]
    return found


def describe_mechanism(
    mechanism: Mechanism, device: Device, host: HostFacts
) -> tuple[MechanismOffer, ...]:
    """Return what a mechanism offers for a card: several offers if it serves several modes.

    A mechanism that fails to answer is not available, and does not keep its agent from registering.
    """
    try:
        offers = _ask_mechanism(mechanism, device, host)
    except (GpupoolError, OSError) as error:
        why = f"it could not be asked: {error}"
        offers = (MechanismOffer(mechanism.name, availability=OfferAvailability.NEVER, why=why),)
    settled = []
    for offer in offers:
        limited = _limit_hosts(_limit_own_pool(offer, host), host)
        # Without the card's own name, so that cards that are alike have equal offers.
        settled.append(replace(limited, why=limited.why.replace(device.uuid, _THE_CARD)))
    return tuple(settled)


def _ask_mechanism(
    mechanism: Mechanism, device: Device, host: HostFacts
) -> tuple[MechanismOffer, ...]:
    describe = getattr(mechanism, "describe_offer", None)
    if describe is None:
        return _derive_offers(mechanism, device, host)
    offer = describe(device, host)
    return () if offer is None else (_settle_mode(offer, device),)


def describe_layer(layer: Layer, device: Device, host: HostFacts) -> LayerOffer:
    """Return what a layer adds on a card, or why it is not added."""
    try:
        return _ask_layer(layer, device, host)
    except (GpupoolError, OSError) as error:
        return LayerOffer(layer.name, absence=f"it could not be asked: {error}")


def _ask_layer(layer: Layer, device: Device, host: HostFacts) -> LayerOffer:
    describe = getattr(layer, "describe_offer", None)
    if describe is not None:
        offer: LayerOffer = describe(device, host)
        return offer
    summary = summarize_layer(layer)
    absence = ""
    for kind in host.hosts:
        found = layer.explain_absence(build_probe_view(device, host, SizeClass.ANY, kind))
        if not found:
            absence = ""
            break
        # Of several hosts the first one's reason is shown: that of processes.
        absence = absence or found
    reached = summary.find_reached(device, host)
    absence = absence.replace(device.uuid, _THE_CARD)
    return LayerOffer(layer.name, reached.levels, summary.mechanisms, absence)


def merge_mode_offers(device: Device) -> dict[CardMode, ModeOffer]:
    """Return the switches of a card by mode: those of the probe, then those of this node."""
    merged = dict[CardMode, ModeOffer]()
    for offer in (*device.modes, *list_mode_offers(device)):
        merged.setdefault(offer.mode, offer)
    return merged


def _derive_offers(
    mechanism: Mechanism, device: Device, host: HostFacts
) -> tuple[MechanismOffer, ...]:
    found = list[MechanismOffer]()
    for mode, switch in _list_modes(device):
        probe = MechanismProbe(mechanism, _as_in_mode(device, mode), host)
        sizes = probe.find_sizes()
        if sizes is not None:
            found.append(_build_offer(probe, sizes, switch))
    if found:
        return tuple(found)
    summary = summarize_mechanism(mechanism)
    sizes = summary.sizes or SizeClass.ANY
    return (
        MechanismOffer(
            mechanism.name,
            hosts=summary.hosts,
            sizes=sizes,
            availability=OfferAvailability.NEVER,
            why=MechanismProbe(mechanism, device, host).explain_refusal(sizes),
            mode=device.mode,
        ),
    )


def _list_modes(device: Device) -> Iterator[tuple[CardMode, ModeOffer | None]]:
    """Yield the mode of a card, then each that it can be switched to."""
    current = current_mode(device)
    yield current, None
    switches = merge_mode_offers(device)
    for mode, switch in switches.items():
        # A card that is cut into agents serves what it serves in one piece.
        if mode is not current and mode not in _PARTITION_MODES:
            yield mode, switch
    if current in _PARTITION_MODES:
        return
    # A mode that this node can set it can leave as well.
    leaves = switches.get(current)
    if current is not CardMode.PLAIN and CardMode.PLAIN not in switches and leaves is not None:
        yield CardMode.PLAIN, replace(leaves, mode=CardMode.PLAIN)


def current_mode(device: Device) -> CardMode:
    """Return the mode of a card; a probe that knows no modes says only that it is partitioned."""
    return CardMode.MIG if device.mode is CardMode.PLAIN and device.partitioned else device.mode


def _as_in_mode(device: Device, mode: CardMode) -> Device:
    if mode is current_mode(device):
        return device
    has_mode = device.partitioned is not None or mode is CardMode.MIG
    partitioned = mode is CardMode.MIG if has_mode else None
    return replace(device, mode=mode, partitioned=partitioned)


def _build_offer(
    probe: MechanismProbe, sizes: SizeClass, switch: ModeOffer | None
) -> MechanismOffer:
    summary = probe.summary
    reached = summary.find_reached(probe.device, probe.host)
    availability = OfferAvailability.NOW
    why = reached.why
    if switch is not None:
        availability = OfferAvailability.AFTER_SWITCH
        if switch.blocked_by:
            availability = OfferAvailability.NEVER
            why = switch.blocked_by
    profiles = list[OfferedProfile]()
    if sizes is SizeClass.PROFILES:
        for one in probe.mechanism.list_profiles(probe.device):
            profiles.append(OfferedProfile(one.name, one.gpu_milli, one.memory_bytes))
    return MechanismOffer(
        probe.mechanism.name,
        reached.levels,
        summary.hosts,
        sizes,
        availability,
        why,
        current_mode(probe.device),
        switch,
        tuple(profiles),
        summary.one_owner,
        probe.list_sharing(sizes),
        summary.favours,
    )


def _settle_mode(offer: MechanismOffer, device: Device) -> MechanismOffer:
    """Say what an offer needs whose mode is another than the card's."""
    if offer.availability is not OfferAvailability.NOW or offer.mode is current_mode(device):
        return offer
    switches = {mode: switch for mode, switch in _list_modes(device) if switch is not None}
    switch = switches.get(offer.mode)
    if switch is None:
        why = f"this node cannot switch the card to {offer.mode}"
        return replace(offer, availability=OfferAvailability.NEVER, why=why)
    if switch.blocked_by:
        return replace(
            offer, availability=OfferAvailability.NEVER, why=switch.blocked_by, switch=switch
        )
    return replace(offer, availability=OfferAvailability.AFTER_SWITCH, switch=switch)


def _limit_own_pool(offer: MechanismOffer, host: HostFacts) -> MechanismOffer:
    """Lower what software holds to advisory in a user's own pool."""
    if not host.own_pool:
        return offer
    lowered = {}
    for field in fields(EnforcementLevels):
        level = getattr(offer.levels, field.name)
        lowered[field.name] = FenceLevel.ADVISORY if level is FenceLevel.SOFT else level
    levels = EnforcementLevels(**lowered)
    if levels == offer.levels:
        return offer
    return replace(offer, levels=levels, why=offer.why or _OWN_POOL)


def _limit_hosts(offer: MechanismOffer, host: HostFacts) -> MechanismOffer:
    """Leave the hosts that this node has; an offer without any is never available."""
    hosts = tuple(kind for kind in offer.hosts if kind in host.hosts)
    if hosts or offer.availability is OfferAvailability.NEVER:
        return replace(offer, hosts=hosts or offer.hosts)
    wanted = " or ".join(map(str, offer.hosts))
    why = f"it needs a {wanted} as host, which this node does not run"
    return replace(offer, availability=OfferAvailability.NEVER, why=why)
