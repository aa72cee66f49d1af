"""Reads from the environment the placement policy of a pool."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.scheduling import DEFAULT_POLICY, find_policy

POLICY = "GPUPOOL_POLICY"


def read_policy(environ: Mapping[str, str]) -> str:
    """Return the name of the policy; raises UnknownPolicy."""
    return find_policy(environ.get(POLICY) or DEFAULT_POLICY).NAME
