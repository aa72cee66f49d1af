"""Creates and destroys MIG instances through NVML: `mechanisms.mig.driver` on a real driver.

Handles of cards are cached, because a lookup by uuid takes up to 10 s on a loaded machine (NVIDIA's
DRA driver). Handles of instances are not: another process may destroy an instance at any time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from gpupool.probes.nvml.driver import NvmlDriver, decode_text, in_session
from gpupool.probes.nvml.instance_calls import (
    CallProblem,
    DriverCallError,
    GpuInstance,
    MigMode,
    Virtualization,
)

#: By the name of NVML's error (nvml.h, nvmlReturn_t).
_PROBLEMS = {
    "IN_USE": CallProblem.IN_USE,
    "INSUFFICIENT_RESOURCES": CallProblem.OCCUPIED,
    "NOT_FOUND": CallProblem.ABSENT,
    "NO_PERMISSION": CallProblem.NO_PERMISSION,
    "NOT_SUPPORTED": CallProblem.UNSUPPORTED,
    "FUNCTION_NOT_FOUND": CallProblem.UNSUPPORTED,
    "RESET_REQUIRED": CallProblem.RESET_REQUIRED,
}
_VIRTUALIZATION = {
    "PASSTHROUGH": Virtualization.PASSTHROUGH,
    "VGPU": Virtualization.VGPU_GUEST,
    "HOST_VGPU": Virtualization.HOST,
    "HOST_VSGA": Virtualization.HOST,
}


class NvmlInstances:
    """The driver's management library, loaded on first use. Thread-safe."""

    def __init__(self, driver: NvmlDriver | None = None) -> None:
        self._driver = driver or NvmlDriver()
        self._handles = dict[str, Any]()
        #: Of the handles: they are invalid once NVML was closed.
        self._epoch = -1
        self._profile_counts = dict[str, tuple[tuple[int, int], ...]]()

    @in_session
    def list_cards(self) -> tuple[str, ...]:
        self._load()
        found = []
        for _, handle in self._driver.iterate_handles():
            uuid = self._driver.read_uuid(handle)
            self._handles[uuid] = handle
            found.append(uuid)
        return tuple(found)

    @in_session
    def read_minor(self, card: str) -> int:
        return int(self._call("nvmlDeviceGetMinorNumber", self._find_handle(card)))

    @in_session
    def read_mode(self, card: str) -> MigMode | None:
        try:
            current, pending = self._call("nvmlDeviceGetMigMode", self._find_handle(card))
        except DriverCallError as error:
            if error.problem is CallProblem.UNSUPPORTED:
                return None
            raise
        return MigMode(current == 1, pending == 1)

    @in_session
    def set_mode(self, card: str, wanted: bool) -> CallProblem | None:
        status = self._call("nvmlDeviceSetMigMode", self._find_handle(card), int(wanted))
        # The call returns SUCCESS also where the mode did not become active; why is the status.
        return None if status == 0 else self._name_problem(status)

    @in_session
    def can_switch_without_reset(self, card: str) -> bool:
        nvml = self._load()
        field = nvml.NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED
        values = self._driver.ask(nvml.nvmlDeviceGetFieldValues, self._find_handle(card), [field])
        # A driver that does not know the field is older than the cards that have the ability.
        return bool(values and values[0].nvmlReturn == 0 and values[0].value.uiVal == 1)

    @in_session
    def read_virtualization(self, card: str) -> Virtualization:
        nvml = self._load()
        found = self._driver.ask(nvml.nvmlDeviceGetVirtualizationMode, self._find_handle(card))
        for name, value in _VIRTUALIZATION.items():
            if found == getattr(nvml, f"NVML_GPU_VIRTUALIZATION_MODE_{name}"):
                return value
        return Virtualization.NONE

    @in_session
    def list_instances(self, card: str) -> tuple[GpuInstance, ...]:
        nvml = self._load()
        handle = self._find_handle(card)
        mode = self.read_mode(card)
        if mode is None or not mode.current:
            return ()
        found = []
        for profile_id, most in self._list_profile_counts(card):
            count = ctypes.c_uint(0)
            array = (nvml.c_nvmlGpuInstance_t * most)()
            self._call("nvmlDeviceGetGpuInstances", handle, profile_id, array, ctypes.byref(count))
            for instance in array[: count.value]:
                info = self._driver.ask(nvml.nvmlGpuInstanceGetInfo, instance)
                if info is None:
                    continue  # destroyed since it was listed
                compute = self._list_compute(instance)
                place = info.placement
                found.append(
                    GpuInstance(
                        int(info.id), int(profile_id), int(place.start), int(place.size), compute
                    )
                )
        return tuple(sorted(found, key=lambda one: (one.start, one.number)))

    @in_session
    def create_instance(self, card: str, profile_id: int, start: int, size: int) -> int:
        nvml = self._load()
        placement = nvml.c_nvmlGpuInstancePlacement_t(start, size)
        instance = self._call(
            "nvmlDeviceCreateGpuInstanceWithPlacement",
            self._find_handle(card),
            profile_id,
            ctypes.byref(placement),
        )
        return int(self._call("nvmlGpuInstanceGetInfo", instance).id)

    @in_session
    def create_compute(self, card: str, instance: int) -> int:
        handle = self._find_instance(card, instance)
        profile = max(self._list_compute_profiles(handle), key=_measure_compute_profile)
        made = self._call("nvmlGpuInstanceCreateComputeInstance", handle, profile.id)
        return int(self._call("nvmlComputeInstanceGetInfo_v2", made).id)

    @in_session
    def read_partition_uuid(self, card: str, instance: int, compute: int) -> str:
        # Through the compute instance: a walk over all MIG devices takes seconds under load.
        info = self._call(
            "nvmlComputeInstanceGetInfo_v2", self._find_compute(card, instance, compute)
        )
        return str(self._call("nvmlDeviceGetUUID", info.device))

    @in_session
    def destroy_compute(self, card: str, instance: int, compute: int) -> None:
        self._call("nvmlComputeInstanceDestroy", self._find_compute(card, instance, compute))

    @in_session
    def destroy_instance(self, card: str, instance: int) -> None:
        self._call("nvmlGpuInstanceDestroy", self._find_instance(card, instance))

    def _load(self) -> Any:
        self._driver.start()
        if self._epoch != self._driver.epoch:
            self._epoch = self._driver.epoch
            self._handles.clear()
        return self._driver.nvml

    def _find_handle(self, card: str) -> Any:
        self._load()
        if card not in self._handles:
            self._handles[card] = self._call("nvmlDeviceGetHandleByUUID", card)
        return self._handles[card]

    def _find_instance(self, card: str, instance: int) -> Any:
        return self._call("nvmlDeviceGetGpuInstanceById", self._find_handle(card), instance)

    def _find_compute(self, card: str, instance: int, compute: int) -> Any:
        handle = self._find_instance(card, instance)
        return self._call("nvmlGpuInstanceGetComputeInstanceById", handle, compute)

    def _list_profile_counts(self, card: str) -> tuple[tuple[int, int], ...]:
        """Return id and largest number of every profile; most enum indices are of other cards."""
        if card not in self._profile_counts:
            nvml = self._load()
            found = []
            for index in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
                info = self._driver.ask(
                    nvml.nvmlDeviceGetGpuInstanceProfileInfo, self._find_handle(card), index
                )
                if info is not None:
                    found.append((int(info.id), int(info.instanceCount)))
            self._profile_counts[card] = tuple(found)
        return self._profile_counts[card]

    def _list_compute_profiles(self, instance: Any) -> list[Any]:
        nvml = self._load()
        shared = nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        found = []
        for index in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            info = self._driver.ask(
                nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, instance, index, shared
            )
            if info is not None:
                found.append(info)
        return found

    def _list_compute(self, instance: Any) -> tuple[int, ...]:
        nvml = self._load()
        numbers = []
        for profile in self._list_compute_profiles(instance):
            count = ctypes.c_uint(0)
            array = (nvml.c_nvmlComputeInstance_t * max(1, profile.instanceCount))()
            self._call(
                "nvmlGpuInstanceGetComputeInstances",
                instance,
                profile.id,
                array,
                ctypes.byref(count),
            )
            for compute in array[: count.value]:
                info = self._driver.ask(nvml.nvmlComputeInstanceGetInfo_v2, compute)
                if info is not None:
                    numbers.append(int(info.id))
        return tuple(sorted(numbers))

    def _call(self, name: str, *arguments: Any) -> Any:
        nvml = self._load()
        call: Callable[..., Any] = getattr(nvml, name)
        answer, error = self._driver.try_call(call, *arguments)
        if error is not None:
            text = decode_text(nvml.nvmlErrorString(error))
            raise DriverCallError(name, self._name_problem(error), text)
        return answer

    def _name_problem(self, error: int) -> CallProblem:
        nvml = self._load()
        for name, problem in _PROBLEMS.items():
            if error == getattr(nvml, f"NVML_ERROR_{name}"):
                return problem
        return CallProblem.OTHER


def _measure_compute_profile(profile: Any) -> tuple[int, int]:
    """Return slices and media engines: the largest profile fills the GPU instance."""
    engines = profile.sharedDecoderCount + profile.sharedJpegCount + profile.sharedOfaCount
    return int(profile.sliceCount), int(engines)
