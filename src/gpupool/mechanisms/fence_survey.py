"""Surveys what a fence could enforce on this host, part by part, for `doctor`. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.mechanisms.contract import FenceLevel, JobSeat
from gpupool.mechanisms.driver.driver_files import (
    LDCONFIG,
    find_simulated_libraries,
    find_templates,
)
from gpupool.mechanisms.driver.installed_driver import (
    CUDA,
    LOADER_CACHE,
    NVML,
    DriverFiles,
    find_installed_driver,
)
from gpupool.mechanisms.driver.standin import NotAStandIn, list_unclassified
from gpupool.model.device import Device


@dataclass(frozen=True)
class FenceSurvey:
    """Result of a survey.

    Attributes:
        level: the best level that a share gets here.
        why: what keeps it from a higher level.
        way: how the fence takes the driver's names.
        missing: parts that are missing.
        unclassified: functions of the driver that the fence does not know, so they pass.
    """

    level: FenceLevel
    why: str
    way: str
    missing: tuple[str, ...] = ()
    unclassified: tuple[str, ...] = ()

    def list_facts(self) -> dict[str, Any]:
        """Return the survey as facts of a node."""
        return {
            "level": self.level.value,
            "why": self.why,
            "way": self.way,
            "missing": list(self.missing),
            "unclassified": list(self.unclassified[:20]),
            "unclassified_count": len(self.unclassified),
        }


def survey_fence(
    *, own_pool: bool, simulated: bool, driver: DriverFiles | None = None
) -> FenceSurvey:
    """Return the level that a share of this host's cards, or of simulated ones, would have."""
    driver = driver or find_installed_driver()
    missing = tuple(_list_missing(simulated, driver))
    way = _describe_way(simulated, driver)
    if (
        f"the fence's {CUDA}" in missing
        or "a driver" in missing
        or "the simulated driver" in missing
    ):
        return FenceSurvey(FenceLevel.NONE, f"missing: {', '.join(missing)}", way, missing)
    unseen = _list_unclassified(driver) if not simulated else ()
    if unseen:
        why = f"the driver is newer than this fence: {len(unseen)} of its functions pass unseen"
        return FenceSurvey(FenceLevel.ADVISORY, why, way, missing, unseen)
    if own_pool:
        return FenceSurvey(FenceLevel.ADVISORY, "jobs and pool are one user", way, missing)
    if not can_mount():
        return FenceSurvey(FenceLevel.ADVISORY, "this system refuses private mounts", way, missing)
    return FenceSurvey(
        FenceLevel.SOFT, "who talks to the kernel driver directly is not held", way, missing
    )


def find_container_level(device: Device, seat: JobSeat) -> FenceLevel:
    """Return the level of a share in a container, whose runtime mounts the driver's libraries."""
    driver = find_installed_driver(root=seat.driver_root)
    found = survey_fence(own_pool=seat.own_pool, simulated=device.simulated, driver=driver)
    if found.level is FenceLevel.NONE or found.unclassified or seat.own_pool:
        return found.level
    # This process need not be able to mount anything.
    return FenceLevel.SOFT


def _list_missing(simulated: bool, driver: DriverFiles) -> Iterator[str]:
    place = find_templates()
    cards = find_simulated_libraries()
    for name in (CUDA, NVML):
        if place is None or not (place / name).exists():
            yield f"the fence's {name}"
    if simulated and cards is None:
        yield "the simulated driver"
    if not simulated and CUDA not in driver.files:
        yield "a driver"
    try:
        from gpupool_native import arbiter_path

        if not arbiter_path().exists():
            yield "gpupool-arbiter"
    except ImportError:
        yield "gpupool-arbiter"


def _describe_way(simulated: bool, driver: DriverFiles) -> str:
    if not simulated:
        files: list[str] = []
        for name in (CUDA, NVML):
            files += map(str, driver.files.get(name, ()))
        return f"bound over {', '.join(files)}" if files else "no driver to take the name of"
    if any(os.access(path, os.X_OK) for path in LDCONFIG) and LOADER_CACHE.exists():
        return f"named by a private {LOADER_CACHE}"
    return "named by LD_LIBRARY_PATH alone: there is no ldconfig here"


def _list_unclassified(driver: DriverFiles) -> tuple[str, ...]:
    place = find_templates()
    found: list[str] = []
    for name in (CUDA, NVML):
        file = next(iter(driver.files.get(name, ())), None)
        if place is not None and file is not None and (place / name).exists():
            try:
                found += list_unclassified(place / name, file)
            except (NotAStandIn, OSError) as problem:
                found.append(f"{name}: {problem}")
    return tuple(found)


def can_mount(proc: Path = Path("/proc")) -> bool:
    """Whether this process has CAP_SYS_ADMIN, which a private mount namespace needs.

    That is bit 21 of CapEff (capabilities(7)).
    """
    for line in (proc / "self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> 21 & 1)
    return False
