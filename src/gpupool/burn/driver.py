"""Calls the functions of the CUDA driver that a load needs, through ctypes, and checks each result.

Names, argument types and error numbers are those of the public `cuda.h` (12.x and 13.x alike).
Functions whose arguments changed are called by the versioned name (`cuMemAlloc_v2`).
Loading the library needs no context. docs/decisions/0053-own-cuda-driver-for-loads.md.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Final
from uuid import UUID

from gpupool.base.errors import CudaCallFailure, ServiceUnavailable

LIBRARY: Final = "libcuda.so.1"

#: Results of the driver that callers handle; `cudaError_enum` of cuda.h.
OUT_OF_MEMORY: Final = 2
ILLEGAL_ADDRESS: Final = 700
_NAMES: Final = {
    1: "CUDA_ERROR_INVALID_VALUE",
    OUT_OF_MEMORY: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    201: "CUDA_ERROR_INVALID_CONTEXT",
    ILLEGAL_ADDRESS: "CUDA_ERROR_ILLEGAL_ADDRESS",
    719: "CUDA_ERROR_LAUNCH_FAILED",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    999: "CUDA_ERROR_UNKNOWN",
}

_SM_COUNT: Final = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
# CU_STREAM_NON_BLOCKING: a blocking stream would wait for the default stream, so lanes would not
# run beside each other.
_NON_BLOCKING: Final = 1
# CU_STREAM_CAPTURE_MODE_RELAXED: the other modes refuse calls such as cuMemAlloc during a capture.
_CAPTURE_RELAXED: Final = 2

_Handle = c_void_p
_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetUuid": (c_char_p, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(_Handle), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (_Handle,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemsetD8Async": (c_uint64, ctypes.c_ubyte, c_size_t, _Handle),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, _Handle),
    "cuModuleLoadData": (POINTER(_Handle), c_char_p),
    "cuModuleGetFunction": (POINTER(_Handle), _Handle, c_char_p),
    "cuLaunchKernel": (_Handle, *([c_uint] * 6), c_uint, _Handle, POINTER(c_void_p), c_void_p),
    "cuStreamCreate": (POINTER(_Handle), c_uint),
    "cuStreamSynchronize": (_Handle,),
    "cuStreamDestroy_v2": (_Handle,),
    "cuStreamBeginCapture_v2": (_Handle, c_int),
    "cuStreamEndCapture": (_Handle, POINTER(_Handle)),
    "cuGraphInstantiateWithFlags": (POINTER(_Handle), _Handle, ctypes.c_ulonglong),
    "cuGraphLaunch": (_Handle, _Handle),
    "cuEventCreate": (POINTER(_Handle), c_uint),
    "cuEventRecord": (_Handle, _Handle),
    "cuEventSynchronize": (_Handle,),
    "cuEventElapsedTime": (POINTER(c_float), _Handle, _Handle),
    "cuEventDestroy_v2": (_Handle,),
}


def make_refusal(function: str, result: int) -> CudaCallFailure:
    """Return the error for a call that the driver refused."""
    name = _NAMES.get(result, "a CUDA error")
    return CudaCallFailure(f"{function} said {name} ({result})", function=function, result=result)


class CudaDriver:
    """The driver and the primary context of one card, current in the thread that created it.

    Raises:
        ServiceUnavailable: without a driver.
        CudaCallFailure: there is no such card, or a call failed.
    """

    def __init__(self, index: int = 0) -> None:
        self._functions = _load_functions()
        self.call("cuInit", 0)
        self.device = c_int()
        self.call("cuDeviceGet", byref(self.device), index)
        self._context = _Handle()
        self.call("cuDevicePrimaryCtxRetain", byref(self._context), self.device)
        self.make_current()

    @staticmethod
    def read_uuid(index: int) -> str:
        """Return a card's uuid as GPU-xxxxxxxx-... without creating a context.

        Raises as the constructor does.
        """
        functions = _load_functions()
        device = c_int()
        raw = ctypes.create_string_buffer(16)
        for name, arguments in (
            ("cuInit", (0,)),
            ("cuDeviceGet", (byref(device), index)),
            ("cuDeviceGetUuid", (raw, device)),
        ):
            if result := functions[name](*arguments):
                raise make_refusal(name, result)
        return _format_uuid(raw.raw)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raises CudaCallFailure unless it succeeds."""
        result: int = self._functions[name](*arguments)
        if result:
            raise make_refusal(name, result)

    def make_current(self) -> None:
        """Make the context current in the calling thread, which may then use this object."""
        self.call("cuCtxSetCurrent", self._context)

    def close(self) -> None:
        """Release the context with its memory, streams and modules."""
        self.call("cuDevicePrimaryCtxRelease_v2", self.device)

    def describe_card(self) -> dict[str, Any]:
        """Return driver version, name, uuid and memory as the driver tells a program."""
        version = c_int()
        name = ctypes.create_string_buffer(256)
        raw = ctypes.create_string_buffer(16)
        self.call("cuDriverGetVersion", byref(version))
        self.call("cuDeviceGetName", name, 256, self.device)
        self.call("cuDeviceGetUuid", raw, self.device)
        total = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(total), self.device)
        return {
            "driver_version": version.value,
            "card": name.value.decode(errors="replace"),
            "uuid": _format_uuid(raw.raw),
            "memory_bytes": total.value,
        }

    def count_multiprocessors(self) -> int:
        """Return the number of the card's multiprocessors, at least 1."""
        count = c_int()
        self.call("cuDeviceGetAttribute", byref(count), _SM_COUNT, self.device)
        return max(1, count.value)

    def read_memory(self) -> tuple[int, int]:
        """Return (free, total) bytes as the driver tells a program; of a share, the share's."""
        free = c_size_t()
        total = c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate_memory(self, size: int) -> int:
        """Allocate device memory; raises CudaCallFailure with OUT_OF_MEMORY when none is left."""
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), size)
        return pointer.value

    def free_memory(self, pointer: int) -> None:
        """Free device memory."""
        self.call("cuMemFree_v2", pointer)

    def create_stream(self) -> c_void_p:
        """Create a stream that does not wait for the default stream."""
        stream = _Handle()
        self.call("cuStreamCreate", byref(stream), _NON_BLOCKING)
        return stream

    def create_event(self) -> c_void_p:
        """Create an event with timing."""
        event = _Handle()
        self.call("cuEventCreate", byref(event), 0)
        return event

    def measure_elapsed_ns(self, begin: c_void_p, end: c_void_p) -> int:
        """Return the nanoseconds between two events that both have happened."""
        milliseconds = c_float()
        self.call("cuEventElapsedTime", byref(milliseconds), begin, end)
        return round(milliseconds.value * 1e6)

    def load_module(self, image: bytes) -> c_void_p:
        """Load a module from PTX text that ends with a zero byte; the driver compiles it."""
        module = _Handle()
        self.call("cuModuleLoadData", byref(module), image)
        return module

    def find_function(self, module: c_void_p, name: str) -> c_void_p:
        """Return a kernel of a module."""
        function = _Handle()
        self.call("cuModuleGetFunction", byref(function), module, name.encode())
        return function

    def begin_capture(self, stream: c_void_p) -> None:
        """Record what is submitted to a stream instead of running it."""
        self.call("cuStreamBeginCapture_v2", stream, _CAPTURE_RELAXED)

    def end_capture(self, stream: c_void_p) -> c_void_p:
        """End the capture of a stream; returns a graph that can be launched."""
        graph = _Handle()
        executable = _Handle()
        self.call("cuStreamEndCapture", stream, byref(graph))
        self.call("cuGraphInstantiateWithFlags", byref(executable), graph, 0)
        return executable


def _format_uuid(raw: bytes) -> str:
    """Write a uuid as nvidia-smi prints it."""
    return f"GPU-{UUID(bytes=raw)}"


def _load_functions() -> dict[str, Any]:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise ServiceUnavailable(
            f"no CUDA driver here: {error}",
            hint="run it in a job:  gpupool run --gpu 0.1 -- gpupool burn",
        ) from error
    found = {}
    for name, types in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise ServiceUnavailable(
                f"the CUDA driver here has no {name}: it is older than 11.4",
                hint="update the driver",
            )
        function.argtypes = types
        function.restype = c_int
        found[name] = function
    return found
