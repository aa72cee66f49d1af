"""A node's default for claims that name no kind of sharing.

The default is a label of the node. It can be a kind that promises compute, so it changes nothing
about where a claim can go: only whether its share may use idle time beside its promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpupool.base.errors import BadOption
from gpupool.model.claim import Shape, SharingKind

#: The label of a node that names its default.
SHARING_LABEL: Final = "gpupool.dev/sharing"
#: A claim asked for compute; a kind without a promise would take it away.
DEFAULTS: Final = (SharingKind.FIXED, SharingKind.BURST)


def choose_sharing(shape: Shape, labels: Mapping[str, str]) -> SharingKind:
    """Choose the sharing of a claim on a node with these labels.

    A whole card and a partition have no neighbour to borrow from.
    """
    if shape.names_sharing or shape.is_whole or shape.profile is not None:
        return shape.sharing
    return find_default(labels) or shape.sharing


def find_default(labels: Mapping[str, str]) -> SharingKind | None:
    """Return the default that a node with these labels has; None without a valid one."""
    label = labels.get(SHARING_LABEL)
    return SharingKind(label) if label in DEFAULTS else None


def explain_ignored_label(labels: Mapping[str, str]) -> str:
    """Return why the label of a node is no default, for people; empty without one or if it is."""
    if SHARING_LABEL not in labels or find_default(labels) is not None:
        return ""
    return (
        f"label {SHARING_LABEL}={labels[SHARING_LABEL]} is ignored: a node's default promises "
        f"compute, so it is {' or '.join(DEFAULTS)}"
    )


def check_default(labels: Mapping[str, str]) -> None:
    """Raise BadOption for a default that no node can have."""
    label = labels.get(SHARING_LABEL)
    if label is not None and label not in DEFAULTS:
        raise BadOption(
            f"--label {SHARING_LABEL}={label}: a node's default promises compute",
            hint=f"write {' or '.join(f'{SHARING_LABEL}={one}' for one in DEFAULTS)}; "
            "claims name other kinds themselves",
        )
