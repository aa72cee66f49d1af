"""The rule of placement of a pool, from the environment of its server."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.scheduling.policies import DEFAULT, named

POLICY = "GPUPOOL_POLICY"


def policy_from(environ: Mapping[str, str]) -> str:
    """The name of the policy; without the variable the default one. Raises UnknownPolicy."""
    return named(environ.get(POLICY) or DEFAULT).NAME
