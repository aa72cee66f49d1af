"""Gives each part of a submission the host that its command runs in."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.errors import BadOption
from gpupool.model.claim import Shape
from gpupool.model.isolation.host_kind import HostKind
from gpupool.wire.submissions import LaunchIn


def set_host(shape: Shape, launch: LaunchIn) -> Shape:
    """Return the shape with the host of its launch, so that plans and `explain` know it.

    Raises BadOption for a demanded host that is not what the command runs in.
    """
    runs_in = HostKind.PROCESS
    if launch.container is not None:
        runs_in = HostKind.CONTAINER
    elif launch.vm is not None:
        runs_in = HostKind.VM
    if shape.needs.host not in (None, runs_in):
        raise BadOption(
            f"--host {shape.needs.host}: this command runs as a {runs_in}",
            hint=f"write --host {runs_in}, or leave it out",
        )
    # A claim without a card demands nothing of a card's mechanism.
    if runs_in is HostKind.PROCESS or shape.count == 0:
        return shape
    return replace(shape, needs=replace(shape.needs, host=runs_in))
