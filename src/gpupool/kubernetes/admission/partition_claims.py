"""Resolves the MIG profiles that a pod names by what the cluster's cards publish. Pure.

A name alone says neither its compute and memory nor, if it is short (`3g`), which profile. All are
written into the pod on admission: totals are what quota counts, and cannot be changed afterwards. So
a tenant that edits the profile in the annotation no longer has a claim that comes to the totals. A
pod that was written in the normal form by hand counts what its author wrote: too little is refused
here, and the scheduler gives no card with more (`Shape.partition_bytes`).
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.errors import PodRejection, RequestRejection
from gpupool.base.units import format_mib
from gpupool.dialects.contract import ContainerClaim, PodClaim
from gpupool.dialects.kubernetes import native
from gpupool.dialects.shapes import translate_shape
from gpupool.scheduling import CardTable, list_profile_names, resolve_profiles


def resolve_claim(claim: PodClaim, cards: CardTable | None) -> PodClaim:
    """Return the claim with each profile by its full name and compute; idempotent.

    Raises:
        RequestRejection: no card publishes the profile, or its name means several.
    """
    if all(one.ask.profile is None for one in claim.containers):
        return claim
    found = [_resolve_container(one, cards) for one in claim.containers]
    return replace(claim, containers=tuple(found))


def check_stored(stored: PodClaim, resolved: PodClaim) -> None:
    """Check that a claim in the normal form counts at least what its partitions have.

    Raises:
        PodRejection: it counts less, or names a profile in another way. Its totals cannot be
            changed any more.
    """
    for one, found in zip(stored.containers, resolved.containers, strict=True):
        ask = one.ask
        has = found.ask
        if ask.profile is None or (
            (ask.profile, ask.gpu_milli) == (has.profile, has.gpu_milli)
            and (ask.memory_bytes or 0) >= (has.memory_bytes or 0)
        ):
            continue
        raise PodRejection(
            f"container {one.container}: a partition {has.profile} has {has.gpu_milli} milli and"
            f" {format_mib(has.memory_bytes or 0)}, and this pod counts {ask.profile} with"
            f" {ask.gpu_milli or 0} milli and {format_mib(ask.memory_bytes or 0)}",
            hint="leave the annotation out: admission writes it",
            path=("metadata", "annotations", native.CLAIM),
        )


def _resolve_container(one: ContainerClaim, cards: CardTable | None) -> ContainerClaim:
    name = one.ask.profile
    if name is None:
        return one
    if cards is None:
        raise RequestRejection(
            f"container {one.container}: profile {name} cannot be looked up yet, because the cards "
            "of the cluster are still being read",
            hint="create the pod again in some seconds",
        )
    model = translate_shape(one).shape.model
    profiles = resolve_profiles(name, model, cards)
    if len(profiles) == 1:
        found = profiles[0]
        ask = replace(
            one.ask,
            profile=found.name,
            gpu_milli=found.gpu_milli,
            memory_bytes=found.memory_bytes,
        )
        return replace(one, ask=ask.complete())
    if profiles:
        several = ", ".join(f"{each.name} ({each.gpu_milli} milli)" for each in profiles)
        raise RequestRejection(
            f"container {one.container}: {name} means {several} on different boards",
            hint="name the full profile, and the model: annotation gpupool.dev/model",
        )
    known = list_profile_names(model, cards)
    raise RequestRejection(
        f"container {one.container}: no card{f' of model {model}' if model else ''} in MIG mode has "
        f"a profile {name}",
        hint=f"known: {', '.join(known)}" if known else "no node has a card in MIG mode",
    )
