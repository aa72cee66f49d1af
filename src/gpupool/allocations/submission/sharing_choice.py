"""Gives each part of a submission its kind of sharing: the one asked for, or MPS where it suits.

A claim that prefers throughput or density and asks for a small fixed share gets MPS where a card
of the pool enforces its memory and compute as the fence would. A kind that was named stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gpupool.allocations.submission.host_choice import set_host
from gpupool.allocations.submission.shapes import check_shape, name_owner
from gpupool.allocations.submission.submission import SubmissionPart
from gpupool.base.errors import BadOption
from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.isolation.claim_needs import REQUIRED_LEVELS, ClaimGoal, IsolationKind
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import list_missing_levels
from gpupool.scheduling import Snapshot, survey_mechanisms
from gpupool.wire.fleet import RunAs
from gpupool.wire.submissions import JobIn, ShapeIn

#: Goals for which programs at the same time do better than programs in turns.
_GOALS = (ClaimGoal.THROUGHPUT, ClaimGoal.DENSITY)
#: Compute of the largest share that counts as small: at least two of them are on a card.
SMALL_MILLI = WHOLE // 2


def make_part_check(
    body: JobIn, view: Snapshot, tenant: str, run_as: RunAs | None
) -> Callable[[ShapeIn], Shape]:
    """Return the check of one part's shape."""
    owner = name_owner(tenant, run_as)
    check = partial(check_shape, cards=view.cards, owner=owner)
    if body.launch.container is not None or body.launch.vm is not None or not body.fence:
        return lambda asked: set_host(check(asked), body.launch)
    return lambda asked: _prefer_mps(set_host(check(asked), body.launch), view, tenant, owner)


def _prefer_mps(shape: Shape, view: Snapshot, tenant: str, owner: str) -> Shape:
    needs = shape.needs
    is_small = shape.count == 1 and shape.gpu_milli <= SMALL_MILLI and shape.profile is None
    is_process = needs.host in (None, HostKind.PROCESS)
    if shape.sharing is not SharingKind.FIXED or not (is_small and is_process):
        return shape
    if needs.goal not in _GOALS or needs.isolation is IsolationKind.FAULT:
        return shape
    # Chosen here, so no default of a node replaces it.
    candidate = replace(shape, sharing=SharingKind.MPS, owner=owner, names_sharing=True)
    required = REQUIRED_LEVELS[IsolationKind.SOFT]
    for group in survey_mechanisms(view, candidate, tenant):
        option = group.choice.now
        # An advisory limit is less than the share would have without MPS.
        if option is not None and not list_missing_levels(option.levels, required):
            return candidate
    return shape


def check_sharing(body: JobIn, parts: Sequence[SubmissionPart]) -> None:
    """Raise BadOption for what MPS does not go together with."""
    if not any(part.shape.owner for part in parts):
        return
    if body.launch.container is not None or body.launch.vm is not None:
        raise BadOption(
            "--sharing mps in a container or VM: its /dev/shm is its own, and MPS clients need the "
            "daemon's",
            hint="run the command as a process, or leave out --sharing mps",
        )
    if not body.fence:
        raise BadOption(
            "--sharing mps has no fence that could be left out", hint="leave out --no-fence"
        )
