"""Twelve nodes as their agents would publish them, and sixty claims, for tests of the choice of a
mechanism. All of it is data: the choice knows no mechanism by name."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB, MIB, WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.device import CardMode, ModeNeed, ModeOffer
from gpupool.model.enforcement import EnforcementLevels, FenceLevel, spread_level
from gpupool.model.isolation.claim_needs import ClaimGoal, ClaimNeeds, IsolationKind
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import (
    CardOffers,
    LayerOffer,
    MechanismOffer,
    OfferAvailability,
    OfferedProfile,
    SizeClass,
)
from gpupool.scheduling.mechanism_choice.choice import OfferedCard

ALL_HARD = EnforcementLevels(FenceLevel.HARD, FenceLevel.HARD, FenceLevel.HARD, FenceLevel.HARD)
JOBS = (HostKind.PROCESS, HostKind.CONTAINER)
VMS = (HostKind.VM,)
NEVER = OfferAvailability.NEVER
LATER = OfferAvailability.AFTER_SWITCH

WHOLE_CARDS = MechanismOffer("whole", ALL_HARD, JOBS, SizeClass.WHOLE, sharing=("fixed", "burst"))
FENCE = MechanismOffer(
    "fence", spread_level(FenceLevel.SOFT), JOBS, why="a program around the driver is not held"
)
COUNTED = MechanismOffer("share", EnforcementLevels(), JOBS, why="counted only")
MEMGROUP = LayerOffer("memgroup", EnforcementLevels(memory=FenceLevel.HARD), ("fence", "mps"))
MPS = MechanismOffer(
    "mps",
    spread_level(FenceLevel.SOFT),
    JOBS,
    one_owner=True,
    favours=(ClaimGoal.THROUGHPUT, ClaimGoal.DENSITY),
)
PASSTHROUGH = MechanismOffer(
    "passthrough", ALL_HARD, VMS, SizeClass.WHOLE, mode=CardMode.PASSTHROUGH
)
TO_PASSTHROUGH = ModeOffer(CardMode.PASSTHROUGH, ModeNeed.IDLE_CARD, 2.0)


def _profiles(*rows: tuple[str, int, int]) -> tuple[OfferedProfile, ...]:
    return tuple(OfferedProfile(name, milli, gib * GIB) for name, milli, gib in rows)


H200_PROFILES = _profiles(
    ("1g.18gb", 142, 16), ("2g.35gb", 285, 32), ("3g.71gb", 428, 69), ("7g.141gb", 1000, 140)
)
H100_PROFILES = _profiles(("1g.10gb", 142, 9), ("3g.40gb", 428, 39), ("7g.80gb", 1000, 79))
L40S_PROFILES = _profiles(("L40S-12C", 250, 12), ("L40S-24C", 500, 24))


def _later(
    offer: MechanismOffer, mode: CardMode, needs: ModeNeed, seconds: float | None
) -> MechanismOffer:
    return replace(offer, availability=LATER, mode=mode, switch=ModeOffer(mode, needs, seconds))


def _never(offer: MechanismOffer, why: str) -> MechanismOffer:
    return replace(offer, availability=NEVER, why=why)


def _absent(why: str) -> LayerOffer:
    return replace(MEMGROUP, absence=why)


def _mig(profiles: tuple[OfferedProfile, ...]) -> MechanismOffer:
    return MechanismOffer(
        "mig", ALL_HARD, JOBS, SizeClass.PROFILES, mode=CardMode.MIG, profiles=profiles
    )


def _card(name: str, model: str, gib: int, *offers: MechanismOffer | LayerOffer) -> OfferedCard:
    mechanisms = tuple(one for one in offers if isinstance(one, MechanismOffer))
    layers = tuple(one for one in offers if isinstance(one, LayerOffer))
    return OfferedCard(f"{name}:0", model, gib * GIB, CardOffers(mechanisms, layers))


MIG_LATER = _later(_mig(H200_PROFILES), CardMode.MIG, ModeNeed.IDLE_CARD, 5.0)
VGPU = MechanismOffer(
    "vgpu",
    EnforcementLevels(FenceLevel.HARD, FenceLevel.HARD, FenceLevel.NONE, FenceLevel.SOFT),
    VMS,
    SizeClass.PROFILES,
    mode=CardMode.VGPU,
    profiles=L40S_PROFILES,
)
OWN_POOL = "job and pool are one user"

NODES: tuple[OfferedCard, ...] = (
    _card("h200-r615", "H200", 140, WHOLE_CARDS, FENCE, MPS, MIG_LATER, COUNTED, MEMGROUP,
          replace(PASSTHROUGH, availability=LATER, switch=TO_PASSTHROUGH)),
    replace(
        _card("h200-cgroup-v1", "H200", 140, WHOLE_CARDS, FENCE, MPS, MIG_LATER, COUNTED,
              _absent("cgroup v1 here, dmem needs v2"),
              _never(PASSTHROUGH, "the kernel has no IOMMU")),
        owners=("lab", "shop"),
    ),
    _card("h100-in-mig-mode", "H100", 80,
          _later(WHOLE_CARDS, CardMode.PLAIN, ModeNeed.IDLE_CARD, 5.0),
          _later(FENCE, CardMode.PLAIN, ModeNeed.IDLE_CARD, 5.0), _mig(H100_PROFILES),
          _later(COUNTED, CardMode.PLAIN, ModeNeed.IDLE_CARD, 5.0),
          _absent("the card is in MIG mode")),
    _card("a100-driver-535", "A100-80G", 80, WHOLE_CARDS, FENCE,
          _never(MPS, "driver 535.261.03: a tenant can raise its limits before 550"),
          _later(_mig(H100_PROFILES), CardMode.MIG, ModeNeed.RESET, 30.0), COUNTED,
          _absent("driver 535.261.03, 615 is needed")),
    _card("l40s-vgpu", "L40S", 48, _later(WHOLE_CARDS, CardMode.PLAIN, ModeNeed.RELOAD, None), VGPU),
    _card("l40s-no-licence", "L40S", 48, WHOLE_CARDS, FENCE, COUNTED,
          _never(VGPU, "no vGPU licence on this node")),
    _card("mi300x", "MI300X", 192, WHOLE_CARDS, _never(FENCE, "there is no fence for cards of amd"),
          _later(replace(_mig(_profiles(("cpx", 125, 24))), name="partition"), CardMode.MIG,
                 ModeNeed.RELOAD, 60.0), COUNTED),
    _card("ascend", "Ascend910B", 64, WHOLE_CARDS,
          _never(FENCE, "there is no fence for cards of huawei"), COUNTED),
    _card("simulated-l40s", "L40S", 48, WHOLE_CARDS, FENCE, COUNTED,
          _absent("a simulated card has no memory limits")),
    _card("without-root", "H200", 140,
          replace(WHOLE_CARDS, levels=EnforcementLevels(*[FenceLevel.ADVISORY] * 3), why=OWN_POOL),
          replace(FENCE, levels=spread_level(FenceLevel.ADVISORY), why=OWN_POOL), COUNTED,
          _never(_mig(H200_PROFILES), "only root can change the mode of a card"),
          _absent("the agent is not root")),
    _card("with-iommu", "A100-80G", 80,
          _later(WHOLE_CARDS, CardMode.PLAIN, ModeNeed.IDLE_CARD, 2.0),
          _later(FENCE, CardMode.PLAIN, ModeNeed.IDLE_CARD, 2.0), PASSTHROUGH),
    _card("h100-held-by-dcgm", "H100", 80, WHOLE_CARDS, FENCE,
          _never(_mig(H100_PROFILES), "the MIG mode cannot be switched: process 812 (nv-hostengine) "
                 "holds the card"), COUNTED, _absent("driver 580.95, 615 is needed")),
)  # fmt: skip

_SIZES: dict[str, Shape] = {
    "--gpu 1": Shape(WHOLE),
    "--gpu 0.3 --memory 8GiB": Shape(300, 8 * GIB),
    "--gpu 0.5": Shape(500),
    "--profile 1g.10gb": Shape(142, profile="1g.10gb"),
    "--profile L40S-12C": Shape(250, profile="L40S-12C"),
    "--memory 4GiB --sharing best-effort": Shape(WHOLE, 4 * GIB, sharing=SharingKind.BEST_EFFORT),
    "--gpu 0.05 --memory 512MiB": Shape(50, 512 * MIB),
}


def list_claims() -> list[tuple[str, Shape, ClaimNeeds]]:
    """List the sixty claims with the options that make them."""
    found = list[tuple[str, Shape, ClaimNeeds]]()
    for size in list(_SIZES)[:6]:
        for kind in IsolationKind:
            found.append(_claim(size, ClaimNeeds(kind)))
    for size in ("--gpu 0.3 --memory 8GiB", "--gpu 0.05 --memory 512MiB"):
        for goal in ClaimGoal:
            for isolation in (None, IsolationKind.SOFT, IsolationKind.HARD):
                found.append(_claim(size, ClaimNeeds(isolation, goal)))
    for size in ("--gpu 1", "--gpu 0.3 --memory 8GiB", "--profile L40S-12C"):
        for isolation in (None, IsolationKind.HARD, IsolationKind.FAULT):
            found.append(_claim(size, ClaimNeeds(isolation, host=HostKind.VM)))
    for size in ("--gpu 1", "--gpu 0.3 --memory 8GiB", "--memory 4GiB --sharing best-effort"):
        for isolation in (None, IsolationKind.SOFT, IsolationKind.HARD):
            found.append(_claim(size, ClaimNeeds(isolation, host=HostKind.CONTAINER)))
    return found


def _claim(size: str, needs: ClaimNeeds) -> tuple[str, Shape, ClaimNeeds]:
    words = [f"--{name} {value}" for name, value in needs.write().items()]
    return " ".join((size, *words)), _SIZES[size], needs
