"""The library of the extra `scim`, imported where it is used first."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from gpupool.base.errors import ScimUnavailable


@cache
def load_scim() -> Any:
    """Import `scim2_models`.

    Raises:
        ScimUnavailable: The server lacks it.
    """
    try:
        return import_module("scim2_models")
    except ImportError as error:
        raise ScimUnavailable(
            f"SCIM needs a library that this server lacks: {error}",
            hint="on the pool's machine: pip install 'gpupool[scim]', then gpupool restart",
        ) from error


@cache
def build_policy() -> Any:
    """Build what is tolerated: Entra ID removes by value, and fills entries that are not there."""
    policy = load_scim().ScimPolicy
    return policy(
        unknown=policy.Unknown.ignore,
        remove_value_as_filter=policy.RemoveValue.apply,
        unmatched_path_filter=policy.UnmatchedPathFilter.create,
    )
