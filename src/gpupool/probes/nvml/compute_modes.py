"""Reads and writes a card's compute mode through NVML."""

from __future__ import annotations

from typing import Any

from gpupool.base.errors import ServiceUnavailable
from gpupool.probes.nvml.driver import NvmlDriver


class NvmlComputeModes:
    """The compute modes of NVML's cards, as numbers of `nvmlComputeMode_t`. Thread-safe."""

    def __init__(self, driver: NvmlDriver | None = None) -> None:
        self._driver = driver or NvmlDriver()

    def read_mode(self, uuid: str) -> int | None:
        """Return the mode of a card; None where the library cannot say.

        Raises:
            ProbeSuspended: a step needs NVML closed.
        """
        with self._driver.gate.hold():
            handle, problem = self._find_handle(uuid)
            if problem:
                return None
            number = self._driver.ask(self._driver.nvml.nvmlDeviceGetComputeMode, handle)
        return None if number is None else int(number)

    def write_mode(self, uuid: str, number: int) -> str:
        """Set the mode of a card. Return why that failed; empty where the library accepted it.

        Raises:
            ProbeSuspended: a step needs NVML closed.
        """
        with self._driver.gate.hold():
            handle, problem = self._find_handle(uuid)
            if problem:
                return problem
            call = self._driver.nvml.nvmlDeviceSetComputeMode
            _, error = self._driver.try_call(call, handle, number)
        return "" if error is None else f"the driver answered error {error}"

    def _find_handle(self, uuid: str) -> tuple[Any, str]:
        try:
            self._driver.start()
        except ServiceUnavailable as problem:
            return None, problem.message
        handle, error = self._driver.try_call(self._driver.nvml.nvmlDeviceGetHandleByUUID, uuid)
        return handle, "" if error is None else f"the driver knows no card {uuid} (error {error})"
