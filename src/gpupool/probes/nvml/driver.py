"""Calls NVML through pynvml and turns its errors into "cannot say": the only door to pynvml.

pynvml and the library are loaded on first use, so importing this package costs nothing on a machine
without cards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from gpupool.probes.nvml.gate import GATE, DriverGate

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


class NvmlDriver:
    """The loaded library, once `start` has succeeded. Calls may come from several threads.

    Args:
        gate: opens and closes NVML for all drivers of this process.
    """

    def __init__(self, gate: DriverGate = GATE) -> None:
        self.gate = gate
        self.nvml: Any = None
        #: Of the gate; a handle is valid in the epoch in which it was read.
        self.epoch = -1

    def start(self) -> None:
        """Open NVML unless it is open.

        Raises:
            ProbeSuspended: a step needs it closed.
            ServiceUnavailable: the driver does not start.
        """
        with self.gate.hold():
            if self.nvml is None or not self.gate.is_current(self.epoch):
                self.nvml, self.epoch = self.gate.attach(self)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Start, and keep NVML open inside the block: handles stay valid. Raises as `start`."""
        with self.gate.hold():
            self.start()
            yield

    def close(self) -> None:
        """Close NVML where no other driver of this process uses it. Idempotent."""
        self.gate.detach(self)
        self.nvml = None
        self.epoch = -1

    def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return the driver's answer, None for every kind of "cannot say"."""
        answer, _ = self.try_call(call, *arguments)
        return answer

    def try_call(self, call: Callable[..., Any], *arguments: Any) -> tuple[Any, int | None]:
        """Return (answer, None), or (None, the driver's error number).

        NVML that was closed since answers "uninitialized".
        """
        try:
            return call(*arguments), None
        except self.nvml.NVMLError as problem:
            return None, int(problem.value)
        except self.nvml.NVMLLibraryMismatchError:
            # An older driver has only an older form of this call.
            return None, int(self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    def iterate_handles(self) -> Iterator[tuple[int, Any]]:
        for index in range(self.ask(self.nvml.nvmlDeviceGetCount) or 0):
            handle = self.ask(self.nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None and self.read_uuid(handle):
                yield index, handle

    def read_uuid(self, handle: Any) -> str:
        return str(self.ask(self.nvml.nvmlDeviceGetUUID, handle) or "")


def format_pci_address(bus_id: str) -> str:
    """Write an address of NVML, with eight digits of domain and capitals, as the kernel does.

    >>> pci_address("00000000:3B:00.0")
    '0000:3b:00.0'
    """
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest else bus_id.lower()


def decode_text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


class DriverUser(Protocol):
    """An object with a driver of its own."""

    @property
    def _driver(self) -> NvmlDriver: ...


_User = TypeVar("_User", bound=DriverUser)


def in_session(
    method: Callable[Concatenate[_User, _Arguments], _Answer],
) -> Callable[Concatenate[_User, _Arguments], _Answer]:
    """Run a method inside a session of its object's driver: NVML is not closed before it returns."""

    @wraps(method)
    def run(user: _User, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
        with user._driver.session():
            return method(user, *arguments, **named)

    return run
