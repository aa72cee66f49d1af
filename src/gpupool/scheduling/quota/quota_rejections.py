"""Rejections by quotas: what is exhausted, kept for others, or out of reach for ever."""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import ExhaustedQuota, Use
from gpupool.scheduling.reasons import messages, reach_messages

#: Hint where a claim is stopped only because it may not be preempted.
PREEMPTIBLE = (
    "submit it with --preemptible: then it may use what others are guaranteed, until they need it"
)

#: Hint where no end of a job would help.
HINT = "an admin can raise it: gpupool quota set"


def find_rejection_for_ever(tree: QuotaTree, tenant: str, use: Use) -> Rejection | None:
    """Return the rejection of what is more than the tenant, or a cohort above it, may ever hold."""
    for node in tree.leaves[tenant].list_ancestors():
        for resource, more in use.items():
            limit = node.limits.get(resource)
            if limit and limit.maximum is not None and more > limit.maximum:
                sentence = messages.describe_beyond_maximum(
                    node.title, resource, more, limit.nominal or 0, limit.borrowing or 0
                )
                return Rejection(sentence, RejectionReason.QUOTA, fits_ever=False, hint=HINT)
    return None


def reject_first(found: Iterable[ExhaustedQuota | None]) -> Rejection | None:
    """The first rejection, by the quotas and then by what others are guaranteed."""
    # The first is of the tree of all use, the second, if there is one, of non-preemptible use.
    says = (reject_exhausted, _reject_guaranteed_to_others)
    for say, one in zip(says, found, strict=False):
        if one is not None:
            return say(one)
    return None


def reject_unreachable(found: ExhaustedQuota | None, *, firm: bool) -> Rejection | None:
    """A rejection that no end of a job changes, only a change of quotas."""
    if found is None:
        return None
    numbers = found.resource, found.most, found.kept, found.more
    sentence = reach_messages.describe_kept_by_others(
        found.node.title, *numbers, preemptible=not firm
    )
    return Rejection(sentence, RejectionReason.QUOTA, hint=PREEMPTIBLE if firm else "")


def reject_exhausted(found: ExhaustedQuota) -> Rejection:
    sentence = messages.describe_exhausted(
        found.node.title, found.resource, found.held, found.most, found.kept, found.more
    )
    return Rejection(sentence, RejectionReason.QUOTA)


def _reject_guaranteed_to_others(found: ExhaustedQuota) -> Rejection:
    """Why a non-preemptible claim may not use free cards."""
    numbers = found.resource, found.held, found.most, found.kept, found.more
    return Rejection(
        messages.describe_guaranteed_to_others(found.node.title, *numbers),
        RejectionReason.QUOTA,
        hint=PREEMPTIBLE,
    )
