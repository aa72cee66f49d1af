"""The CUDA driver as a program sees it: the few functions a load needs, by ctypes, every result checked.

Names, argument types and error numbers are those of the public `cuda.h` (12.x and 13.x alike); functions that have
changed are called under the name of the layout used here (`cuMemAlloc_v2`). No context is needed to load it.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Final
from uuid import UUID

from gpupool.base.errors import CudaRefused, Unavailable

LIBRARY: Final = "libcuda.so.1"

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
_NON_BLOCKING: Final = 1  # CU_STREAM_NON_BLOCKING
_CAPTURE_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED

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


def refused(function: str, result: int) -> CudaRefused:
    """The error of a call that the driver refused."""
    name = _NAMES.get(result, "a CUDA error")
    return CudaRefused(f"{function} said {name} ({result})", function=function, result=result)


class Driver:
    """The driver and one card's primary context, current in the thread that made it.

    Raises Unavailable without a driver, CudaRefused where there is no such card.
    """

    def __init__(self, index: int = 0) -> None:
        self._functions = _load()
        self.call("cuInit", 0)
        self.device = c_int()
        self.call("cuDeviceGet", byref(self.device), index)
        self._context = _Handle()
        self.call("cuDevicePrimaryCtxRetain", byref(self._context), self.device)
        self.make_current()

    @staticmethod
    def uuid_of(index: int) -> str:
        """A card's uuid as GPU-xxxxxxxx-..., before there is a context. Raises as the constructor does."""
        functions, device, raw = _load(), c_int(), ctypes.create_string_buffer(16)
        for name, arguments in (
            ("cuInit", (0,)),
            ("cuDeviceGet", (byref(device), index)),
            ("cuDeviceGetUuid", (raw, device)),
        ):
            if result := functions[name](*arguments):
                raise refused(name, result)
        return _printed(raw.raw)

    def call(self, name: str, *arguments: Any) -> None:
        """Call, and raise CudaRefused unless it succeeds."""
        result: int = self._functions[name](*arguments)
        if result:
            raise refused(name, result)

    def make_current(self) -> None:
        """For the calls of another thread."""
        self.call("cuCtxSetCurrent", self._context)

    def close(self) -> None:
        """Give the context and all that is in it back."""
        self.call("cuDevicePrimaryCtxRelease_v2", self.device)

    # What it is ------------------------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """Driver and card, as a program is told."""
        version, name, raw = c_int(), ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
        self.call("cuDriverGetVersion", byref(version))
        self.call("cuDeviceGetName", name, 256, self.device)
        self.call("cuDeviceGetUuid", raw, self.device)
        total = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(total), self.device)
        return {
            "driver_version": version.value,
            "card": name.value.decode(errors="replace"),
            "uuid": _printed(raw.raw),
            "memory_bytes": total.value,
        }

    def multiprocessors(self) -> int:
        count = c_int()
        self.call("cuDeviceGetAttribute", byref(count), _SM_COUNT, self.device)
        return max(1, count.value)

    # Memory ----------------------------------------------------------------------------------

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes, as a program is told."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """Device memory. Raises CudaRefused with OUT_OF_MEMORY when there is none."""
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), size)
        return pointer.value

    def free(self, pointer: int) -> None:
        self.call("cuMemFree_v2", pointer)

    # Streams, events, kernels ------------------------------------------------------------------

    def stream(self) -> c_void_p:
        made = _Handle()
        self.call("cuStreamCreate", byref(made), _NON_BLOCKING)
        return made

    def event(self) -> c_void_p:
        made = _Handle()
        self.call("cuEventCreate", byref(made), 0)
        return made

    def elapsed_ns(self, begin: c_void_p, end: c_void_p) -> int:
        """Between two events that have happened; the driver gives milliseconds as a float."""
        found = c_float()
        self.call("cuEventElapsedTime", byref(found), begin, end)
        return round(found.value * 1e6)

    def module(self, image: bytes) -> c_void_p:
        made = _Handle()
        self.call("cuModuleLoadData", byref(made), image)
        return made

    def function(self, module: c_void_p, name: str) -> c_void_p:
        made = _Handle()
        self.call("cuModuleGetFunction", byref(made), module, name.encode())
        return made

    def capture(self, stream: c_void_p) -> None:
        self.call("cuStreamBeginCapture_v2", stream, _CAPTURE_RELAXED)

    def end_capture(self, stream: c_void_p) -> c_void_p:
        """What was captured, ready to be launched."""
        graph, executable = _Handle(), _Handle()
        self.call("cuStreamEndCapture", stream, byref(graph))
        self.call("cuGraphInstantiateWithFlags", byref(executable), graph, 0)
        return executable


def _printed(raw: bytes) -> str:
    """As the driver's tools print a uuid."""
    return f"GPU-{UUID(bytes=raw)}"


def _load() -> dict[str, Any]:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Unavailable(
            f"no CUDA driver here: {error}",
            hint="run it in a job:  gpupool run --gpu 0.1 -- gpupool burn",
        ) from error
    found = {}
    for name, types in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise Unavailable(f"the CUDA driver here has no {name}: it is older than 11.4", hint="update the driver")
        function.argtypes, function.restype = types, c_int
        found[name] = function
    return found
