"""Mechanisms in the work of an agent and in its reports."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel

#: The words of `model.enforcement.FenceLevel`.
EnforcementWord = Literal["none", "advisory", "soft", "hard"]


class PlannedMechanism(WireModel):
    """A mechanism that serves an allocation by what its node offers."""

    mechanism: str
    holds: dict[str, EnforcementWord] = Field(
        default_factory=dict, description="expected enforcement level by dimension"
    )
