"""Reads what the driver recommends for a card that had an error."""

from __future__ import annotations

from typing import Any

from gpupool.model.faults.actions import RECOVERY_ACTIONS, RecoveryAction
from gpupool.probes.nvml.driver import NvmlDriver


def read_recovery(driver: NvmlDriver, handle: Any) -> RecoveryAction | None:
    """Return the recommendation; None where driver or card has none, or one that is not known."""
    nvml = driver.nvml
    field = nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    values = driver.ask(nvml.nvmlDeviceGetFieldValues, handle, [field])
    # The call answers for many fields, so that each one has an error number of its own.
    if not values or values[0].nvmlReturn != nvml.NVML_SUCCESS:
        return None
    if values[0].valueType != nvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        return None
    return RECOVERY_ACTIONS.get(int(values[0].value.uiVal))
