"""Idle policies, and the rule that a job has by them. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpupool.allocations.idleness.ladder import IdleAct, IdleLadder, IdleStep, combine_ladders
from gpupool.base.errors import IdleLadderContradicts, LooserIdlePolicy
from gpupool.base.units import format_gpu, format_span

#: A word in the command that `gpupool notebook` submits.
_NOTEBOOK_MARK: Final = "gpupool-notebook"


class IdleMode(StrEnum):
    """What a policy does when a step is due."""

    ON = "on"
    #: Nothing happens; the report says what would have been given back.
    DRY_RUN = "dry-run"


class JobKind(StrEnum):
    """What a policy may be limited to."""

    NOTEBOOK = "notebook"
    GANG = "gang"
    CONTAINER = "container"
    JOB = "job"


@dataclass(frozen=True)
class JobFacts:
    """Whose a job is and of which kind: what its policies are found by."""

    tenant_id: int
    project_id: int
    kind: JobKind


@dataclass(frozen=True)
class IdlePolicy:
    """One policy. Without tenant, project and kind it is the pool's.

    Attributes:
        by_tenant: an admin of the tenant made it, so it only tightens.
        keep_seconds: the longest keep; 0: no keep.
        keeps_per_day: keeps of one job in 24 hours.
    """

    row_id: int
    id: str
    tenant_id: int | None
    project_id: int | None
    kind: JobKind | None
    by_tenant: bool
    mode: IdleMode
    ladder: IdleLadder
    keep_seconds: int
    keeps_per_day: int
    tenant: str | None = None
    project: str | None = None
    generation: int = 0

    def covers(self, job: JobFacts) -> bool:
        """Whether it is about a job."""
        return (
            self.tenant_id in (None, job.tenant_id)
            and self.project_id in (None, job.project_id)
            and self.kind in (None, job.kind)
        )

    @property
    def precision(self) -> tuple[bool, bool, bool]:
        """How closely it names its jobs: the policy that names them closest holds."""
        return self.project_id is not None, self.tenant_id is not None, self.kind is not None


@dataclass(frozen=True)
class IdleRule:
    """What the policies of one job are together."""

    policies: tuple[str, ...]
    mode: IdleMode
    ladder: IdleLadder
    keep_seconds: int
    keeps_per_day: int

    @property
    def is_dry(self) -> bool:
        return self.mode is IdleMode.DRY_RUN

    def describe(self) -> str:
        """Describe it in one sentence, as a person reads it at the start of a notebook."""
        warning = self.ladder.steps[0]
        acts = [_describe_step(step) for step in self.ladder.steps[1:]]
        told = f"you will be told at {format_span(warning.after_seconds)}"
        if not acts:
            return f"{told} idle; nothing else happens"
        text = f"{', '.join(acts)} idle; {told}"
        return f"dry run, nothing happens: {text}" if self.is_dry else text


def find_base(policies: Iterable[IdlePolicy], job: JobFacts) -> IdlePolicy | None:
    """Find the policy of the pool's admins that names a job closest; None: there is none."""
    mine = [one for one in policies if not one.by_tenant and one.covers(job)]
    return max(mine, key=lambda one: one.precision, default=None)


def find_rule(policies: Sequence[IdlePolicy], job: JobFacts) -> IdleRule | None:
    """Find the rule of a job; None: no policy is about it.

    The admins' policy that names it closest holds, tightened by all policies of its tenant. Where
    one of them acts, dry runs do not count.
    """
    base = find_base(policies, job)
    parts = [one for one in policies if one.by_tenant and one.covers(job)]
    if base is not None:
        parts.insert(0, base)
    acting = [one for one in parts if one.mode is IdleMode.ON]
    parts = acting or parts
    if not parts:
        return None
    return IdleRule(
        tuple(one.id for one in parts),
        parts[0].mode,
        combine_ladders(one.ladder for one in parts),
        min(one.keep_seconds for one in parts),
        min(one.keeps_per_day for one in parts),
    )


def find_kind(command: Sequence[str], *, is_gang: bool, is_container: bool) -> JobKind:
    """Find the kind of a job."""
    if _NOTEBOOK_MARK in command:
        return JobKind.NOTEBOOK
    if is_gang:
        return JobKind.GANG
    return JobKind.CONTAINER if is_container else JobKind.JOB


def check_ladder(ladder: IdleLadder) -> None:
    """Check the steps of a policy. Raises IdleLadderContradicts."""
    steps = ladder.steps
    if not steps or steps[0].act is not IdleAct.WARN:
        raise IdleLadderContradicts(
            "the first step has to be a warning: a person must be able to come back in time",
            hint="add --warn 50m",
        )
    if steps[0].after_seconds < ladder.window_seconds:
        raise IdleLadderContradicts(
            f"a warning after {format_span(steps[0].after_seconds)} is within the window of "
            f"{format_span(ladder.window_seconds)}, in which a job counts as active",
            hint="give a smaller --window, or warn later",
        )
    for before, step in itertools.pairwise(steps):
        if step.act.rank <= before.act.rank or step.after_seconds <= before.after_seconds:
            raise IdleLadderContradicts(
                f"{step.act} after {format_span(step.after_seconds)} follows {before.act} after "
                f"{format_span(before.after_seconds)}",
                hint="the order is warn, shrink, suspend, stop, each later than the one before",
            )
    for step in steps:
        if (step.act is IdleAct.SHRINK) != (step.gpu_milli is not None):
            raise IdleLadderContradicts(
                f"{step.act} names {step.gpu_milli} thousandths of a card",
                hint="a shrink says what it leaves, and no other step does: --shrink-to 0.05",
            )


def check_tightening(policy: IdlePolicy, base: IdlePolicy | None) -> None:
    """Check that a tenant's policy loosens nothing of the pool's. Raises LooserIdlePolicy."""
    if base is None or base.mode is IdleMode.DRY_RUN:
        return
    theirs = {step.act: step for step in base.ladder.steps}
    for step in policy.ladder.steps:
        known = theirs.get(step.act)
        if known is not None and step.after_seconds > known.after_seconds:
            raise _refuse_looser(
                f"{step.act} after {format_span(step.after_seconds)}",
                f"{step.act} after {format_span(known.after_seconds)}",
                base,
            )
        if known is not None and (step.gpu_milli or 0) > (known.gpu_milli or 0):
            raise _refuse_looser(
                f"shrink to {format_gpu(step.gpu_milli or 0)}",
                f"shrink to {format_gpu(known.gpu_milli or 0)}",
                base,
            )
    if policy.keep_seconds > base.keep_seconds:
        raise _refuse_looser(
            f"keeps of {format_span(policy.keep_seconds)}",
            f"keeps of {format_span(base.keep_seconds)}",
            base,
        )
    if policy.keeps_per_day > base.keeps_per_day:
        raise _refuse_looser(
            f"{policy.keeps_per_day} keeps a day", f"{base.keeps_per_day} keeps a day", base
        )


def _refuse_looser(mine: str, theirs: str, base: IdlePolicy) -> LooserIdlePolicy:
    return LooserIdlePolicy(
        f"{mine} is looser than the pool's policy {base.id}: {theirs}",
        hint=f"a tenant may only tighten; gpupool idle policy show {base.id}",
        policy=base.id,
    )


def _describe_step(step: IdleStep) -> str:
    after = format_span(step.after_seconds)
    if step.gpu_milli is not None:
        return f"shrink to {format_gpu(step.gpu_milli)} GPU after {after}"
    return f"{step.act} after {after}"
