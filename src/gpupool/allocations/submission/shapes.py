"""Checks requested amounts per card and builds a shape: a share, or a partition by profile.

What makes sense for no card anywhere is rejected; whether this pool has such a card is judged
later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.allocations.store import gangs as gang_rows
from gpupool.allocations.submission.submission import SubmissionPart
from gpupool.base.errors import BadFraction, BadOption, BadQuantity, UnknownProfile
from gpupool.base.units import MIB, WHOLE, format_mib
from gpupool.model.catalogue import nearest_model
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.isolation.claim_needs import ANY_NEEDS, ClaimNeeds, read_needs
from gpupool.model.topology import LinkKind
from gpupool.scheduling import CardTable, list_levels, list_profile_names, resolve_profiles
from gpupool.wire.fleet import RunAs
from gpupool.wire.submissions import JobIn, ShapeIn


def check_shape(asked: ShapeIn, cards: CardTable | None = None, owner: str = "") -> Shape:
    """Build the shape if it makes sense for some card.

    Args:
        asked: The requested amounts.
        cards: Cards whose profiles are known; without them partitions are rejected.
        owner: The owner of the claim, for MPS; empty for a reservation.

    Raises:
        BadFraction: The compute of a card is not between 0.001 and 1.
        BadQuantity: An amount of memory or of processors is not valid.
        BadOption: Options exclude each other.
        UnknownProfile: No card has the profile, or several models do.
    """
    if asked.profile is not None:
        return _check_partition(asked, asked.profile, cards)
    if asked.count == 0:
        _check_no_card(asked, cards)
    elif not 1 <= asked.gpu_milli <= WHOLE:
        raise BadFraction(
            f"{asked.gpu_milli / WHOLE:g} of a card per card cannot be given",
            hint="per card ask for 0.001 to 1; for several cards add --count N",
        )
    if not 0 <= asked.count <= 100_000:
        raise BadOption(
            f"--count {asked.count}: a claim has 1 to 100000 cards of one node",
            hint="write --count 1; --gpu none asks for no card",
        )
    size = asked.memory_bytes
    if size is not None and size < 1:
        raise BadQuantity(f"{size} bytes of memory is nothing", hint="ask for at least 1MiB")
    if not 0 <= asked.cpu_milli <= 10**9 or asked.host_bytes < 0:
        raise BadQuantity(
            f"{asked.cpu_milli / 1000:g} processors and {format_mib(asked.host_bytes)} "
            "of main memory cannot be given",
            hint="write --cpus 4 --host-memory 32GiB",
        )
    return Shape(
        gpu_milli=asked.gpu_milli,
        # Rounded up: the fence and the seats count whole MiB, and a job must not get less.
        memory_bytes=None if size is None else -(-size // MIB) * MIB,
        count=asked.count,
        model=asked.model,
        # Sorted, so that equal requests share a class of the queue.
        labels=tuple(sorted(asked.labels.items())),
        sharing=SharingKind(asked.sharing or SharingKind.FIXED),
        cpu_milli=asked.cpu_milli,
        host_bytes=-(-asked.host_bytes // MIB) * MIB,
        within=gang_rows.build_within(asked.within),
        needs=_check_needs(asked, cards),
        owner=_check_owner(asked, owner),
        names_sharing=asked.sharing is not None,
    )


def check_cards(body: JobIn, parts: Sequence[SubmissionPart]) -> None:
    """Raise BadOption for a submission without a card that needs one."""
    if all(part.shape.count for part in parts):
        return
    if body.launch.vm is None:
        raise BadOption(
            "a claim without a card is for virtual machines: a command shares a card",
            hint="gpupool vm run --gpu none, or give the command a share: --gpu 0.1",
        )
    if body.preemptible or body.reservation is not None:
        raise BadOption(
            "a claim without a card is not preemptible and uses no reservation: both are about cards",
            hint="leave out --preemptible and --reservation",
        )


def _check_no_card(asked: ShapeIn, cards: CardTable | None) -> None:
    """Raise BadOption for what only cards have, in a claim without one."""
    if cards is None:
        raise BadOption("a reservation holds cards", hint="reserve a card: --gpu 1")
    is_about_cards = (
        asked.gpu_milli != 0
        or asked.memory_bytes is not None
        or asked.model is not None
        or asked.within is not None
        or asked.needs is not None
        or asked.sharing not in (None, "fixed")
    )
    if is_about_cards:
        raise BadOption(
            "a claim without a card names no compute, memory, model, sharing, isolation or "
            "topology of cards",
            hint="leave these options out, or ask for a card: --gpu 1",
        )
    if not asked.cpu_milli and not asked.host_bytes:
        raise BadOption(
            "a claim without a card needs processors or main memory of its node",
            hint="add --cpus 2 --host-memory 4GiB",
        )


def name_owner(tenant: str, run_as: RunAs | None) -> str:
    """Name the owner of a claim: one MPS server runs the programs of one account of one tenant."""
    return f"{tenant}/{run_as.name}" if run_as else tenant


def _check_owner(asked: ShapeIn, owner: str) -> str:
    """Return the owner that the cards of a claim have meanwhile; empty without MPS."""
    if asked.sharing is None or SharingKind(asked.sharing) is not SharingKind.MPS:
        return ""
    if not owner:
        raise BadOption(
            "a reservation holds cards for any sharing",
            hint="ask for MPS with the jobs that use it",
        )
    if asked.count != 1:
        raise BadOption(
            f"--sharing mps with {asked.count} cards: an MPS server serves one card",
            hint="leave out --count, and submit a job for each card",
        )
    return owner


def _check_needs(asked: ShapeIn, cards: CardTable | None) -> ClaimNeeds:
    if asked.needs is None:
        return ANY_NEEDS
    if cards is None:
        raise BadOption(
            "a reservation holds cards for any mechanism",
            hint="ask for isolation with the jobs that use it",
        )
    return read_needs(asked.needs.model_dump(exclude_none=True))


def _check_partition(asked: ShapeIn, name: str, cards: CardTable | None) -> Shape:
    """Build the shape of a partition, with the compute of its profile.

    The memory stays open: cards of different models give a profile of one name different sizes.
    """
    if cards is None:
        raise BadOption(
            f"a reservation holds cards and shares, no partitions ({name})",
            hint="reserve the card: --gpu 1",
        )
    if asked.gpu_milli or asked.memory_bytes is not None or asked.sharing not in (None, "fixed"):
        raise BadOption(
            f"a partition ({name}) has the compute and memory of its profile, for its holder alone",
            hint="leave out --gpu, --memory and --sharing",
        )
    found = resolve_profiles(name, asked.model, cards)
    if len(found) != 1:
        raise _build_profile_error(name, asked.model, [one.name for one in found], cards)
    (profile,) = found
    plain = check_shape(
        asked.model_copy(update={"profile": None, "gpu_milli": profile.gpu_milli}), cards
    )
    return replace(plain, profile=profile.name)


def _build_profile_error(
    name: str, model: str | None, found: list[str], cards: CardTable
) -> UnknownProfile:
    known = list_profile_names(model, cards)
    if found:
        several = f"{', '.join(found)} on cards of different models"
        return UnknownProfile(
            f"{name} means {several}", hint="write the whole name, or add --model"
        )
    kind = f"{model} cards of this pool" if model else "cards of this pool"
    if not known:
        hint = "ask for a share:  --gpu 0.5; gpupool gpus  shows which cards are in partition mode"
        return UnknownProfile(f"no {kind} can be cut into partitions", hint=hint)
    near = nearest_model(name, known)
    meant = f"did you mean {near}?  " if near else ""
    return UnknownProfile(
        f"no {kind} can be cut into {name!r}", hint=f"{meant}they have: {', '.join(known)}"
    )


def check_level(shape: Shape, cards: CardTable) -> None:
    """Raise BadOption for a topology level that neither machines nor labels of this pool know."""
    # SYSTEM joins any two cards of a node, so as a level it would say nothing.
    known = [kind.value for kind in LinkKind if kind is not LinkKind.SYSTEM]
    known += [level.name for level in list_levels(cards)]
    for level in (shape.within.required, shape.within.preferred):
        if level is not None and level not in known:
            raise BadOption(
                f"no node of this pool knows the level {level!r}",
                hint=f"one of: {', '.join(known)}",
            )
