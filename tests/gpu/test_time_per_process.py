"""GPU time per process: NVML's samples beside the fence's account of a job that is alone on its
card."""

from __future__ import annotations

import time

import pytest

from gpupool.probes.nvml import NvmlProbe
from tests.gpu.conftest import RealCardPool
from tests.gpu.test_shares import BURN
from tests.support.gpu_times import Look, points_apart

#: Points of the card. NVML samples whole percents; its error on hardware is what this test is to
#: find out.
TOLERANCE = 10
WINDOW_NS = 15 * 10**9


def look(pool: RealCardPool, probe: NvmlProbe, name: str) -> Look | None:
    """Both accounts now; None until each knows the job."""
    use = pool.job(name).get("use") or {}
    uuid = str(pool.card["uuid"])
    times = probe.process_times([uuid])
    if uuid not in times:
        pytest.skip("this driver has no samples of utilization per process")
    known = [
        times[uuid][one["pid"]] for one in use.get("processes", ()) if one["pid"] in times[uuid]
    ]
    if not known or use.get("gpu_milliseconds") is None:
        return None
    return Look(time.monotonic_ns(), sum(known), use["gpu_milliseconds"] * 10**6)


@pytest.mark.parametrize("share", ["0.3", "0.7"])
def test_nvml_and_the_fence_agree_on_a_job_alone(pool: RealCardPool, share: str) -> None:
    name, probe = f"timed-{share.replace('.', '-')}", NvmlProbe()
    pool.do(
        "submit", "--name", name, "--gpu", share, "--memory", "4GiB", "--", *BURN, "--seconds", "40"
    )
    pool.until_state(name, "running")
    looks = [pool.until(lambda: look(pool, probe, name), "both accounts know the job")]
    while looks[-1].at_ns - looks[0].at_ns < WINDOW_NS:
        looks.append(
            pool.until(lambda: look(pool, probe, name), "both accounts still know the job")
        )
    probe.close()
    pool.do("stop", name)
    apart = points_apart(looks)
    print(f"share {share}: NVML is {apart:+.1f} points from the fence")
    assert abs(apart) <= TOLERANCE
