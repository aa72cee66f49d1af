"""Reads which MIG profiles a card offers and which partitions it has."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any

from gpupool.model.partition import Partition, PartitionProfile, PartitionSlot
from gpupool.probes.nvml.driver import NvmlDriver, decode_text


def read_profiles(driver: NvmlDriver, handle: Any) -> Iterator[PartitionProfile]:
    """Yield the profiles that this very card offers."""
    known = []
    for index in range(driver.nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        # Most indices are of other cards. A profile's id is not its index.
        info = driver.ask(driver.nvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, index)
        if info is not None:
            known.append(info)
    slices = max((info.sliceCount for info in known), default=0)
    for info in known:
        places = _list_slots(driver, handle, info)
        if places:
            yield PartitionProfile(
                name=decode_text(info.name).removeprefix("MIG "),
                size=places[0].size,
                memory_bytes=int(info.memorySizeMB) << 20,
                starts=tuple(sorted(place.start for place in places)),
                max_count=int(info.instanceCount),
                gpu_milli=info.sliceCount * 1000 // slices,
                profile_id=int(info.id),
                # Of `+gfx` and `-me` shapes a card may have several.
                media="+me" in decode_text(info.name),
            )


def _list_slots(driver: NvmlDriver, handle: Any, info: Any) -> list[Any]:
    nvml = driver.nvml
    count = ctypes.c_uint(0)
    ask = nvml.nvmlDeviceGetGpuInstancePossiblePlacements
    if driver.ask(ask, handle, info.id, None, ctypes.byref(count)) is None or not count.value:
        return []
    found = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    done = driver.ask(ask, handle, info.id, ctypes.byref(found), ctypes.byref(count))
    return [] if done is None else list(found[: count.value])


def read_partitions(
    driver: NvmlDriver, uuid: str, handle: Any, profiles: Iterable[PartitionProfile]
) -> Iterator[Partition]:
    nvml = driver.nvml
    names = dict(_iterate_partition_uuids(driver, handle))
    for profile in profiles:
        count = ctypes.c_uint(0)
        found = (nvml.c_nvmlGpuInstance_t * profile.max_count)()
        ask = nvml.nvmlDeviceGetGpuInstances
        if driver.ask(ask, handle, profile.profile_id, found, ctypes.byref(count)) is None:
            continue
        for instance in found[: count.value]:
            info = driver.ask(nvml.nvmlGpuInstanceGetInfo, instance)
            if info is not None:
                place = PartitionSlot(info.placement.start, info.placement.size, profile.name)
                yield Partition(uuid, place, names.get(info.id), int(info.id))


def _iterate_partition_uuids(driver: NvmlDriver, handle: Any) -> Iterator[tuple[int, str]]:
    """Yield GPU instance number and uuid of every partition that a program can be given."""
    nvml = driver.nvml
    for index in range(driver.ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        piece = driver.ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        number = None if piece is None else driver.ask(nvml.nvmlDeviceGetGpuInstanceId, piece)
        if number is not None and driver.read_uuid(piece):
            yield int(number), driver.read_uuid(piece)
