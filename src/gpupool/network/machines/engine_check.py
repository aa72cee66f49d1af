"""Checks the engine of networks for `gpupool doctor`, by what the API shows of it. Pure."""

from __future__ import annotations

from gpupool.base.health import CheckFinding, fail, warn, well
from gpupool.network.machines.database_views import describe_danger
from gpupool.network.machines.views import describe_waiting
from gpupool.wire.network.networks import NetworkEngineOut


def check_engine(engine: NetworkEngineOut) -> CheckFinding:
    """Check that networks are carried; a pool that did not enable them is well."""
    if engine.state == "off":
        return well("not enabled")
    if engine.state == "failed":
        # The reason of a failed start has the packages that this machine lacks.
        return fail(f"the engine failed: {engine.reason}", "gpupool network status")
    waiting = [one for one in engine.machines if one.state != "ready"]
    failed = [one for one in engine.zones[1:] if one.state == "failed"]
    danger = describe_danger(engine.databases)
    if danger:
        return warn(danger, "gpupool network status")
    if engine.state == "ready" and failed:
        reason = f"zone {failed[0].number} of networks failed: {failed[0].reason}"
        return fail(reason, "gpupool network status")
    if engine.state == "ready" and waiting:
        return warn(describe_waiting(engine.machines, waiting), "gpupool network status")
    if engine.state == "ready" and engine.reason:
        return warn(engine.reason, "gpupool network status")
    if engine.state == "ready":
        return well(f"ready; {engine.networks} networks, {engine.jobs} jobs in them")
    reason = f": {engine.reason}" if engine.reason else ""
    return warn(f"the engine is {engine.state}{reason}", "gpupool network status")
