"""The driver API by cuda-bindings: what is seen, what copies move, a module and a launch, and where
memory ends.

Prints one JSON object. `hold BYTES` allocates instead, says so, and waits for the end of standard
input.
"""

import json
import os
import sys

import numpy
from cuda.bindings import driver

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing() { ret; }
"""


class Failed(Exception):
    pass


def call(name, *words):
    """The function's results; raises what it failed with."""
    result, *rest = getattr(driver, name)(*words)
    if result != driver.CUresult.CUDA_SUCCESS:
        raise Failed(result.name)
    return rest[0] if len(rest) == 1 else tuple(rest)


def failure(name, *words):
    """The name of the error that the call gives, or None."""
    try:
        call(name, *words)
    except Failed as failed:
        return str(failed)
    return None


def begin():
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    context = call("cuDevicePrimaryCtxRetain", device)
    call("cuCtxSetCurrent", context)
    return device


def round_trip():
    sent = numpy.arange(1 << 20, dtype=numpy.uint32)
    got = numpy.zeros_like(sent)
    one, two = call("cuMemAlloc", sent.nbytes), call("cuMemAlloc", sent.nbytes)
    call("cuMemcpyHtoD", one, sent.ctypes.data, sent.nbytes)
    call("cuMemcpyDtoD", two, one, sent.nbytes)
    call("cuMemsetD32", one, 7, 16)
    call("cuMemcpyDtoH", got.ctypes.data, two, sent.nbytes)
    same = bool((got == sent).all())
    call("cuMemcpyDtoH", got.ctypes.data, one, 128)
    call("cuMemFree", one)
    call("cuMemFree", two)
    return same and got[:32].tolist() == [7] * 16 + list(range(16, 32))


def launches():
    module = call("cuModuleLoadData", PTX)
    function = call("cuModuleGetFunction", module, b"nothing")
    stream = call("cuStreamCreate", 0)
    start, end = call("cuEventCreate", 0), call("cuEventCreate", 0)
    call("cuEventRecord", start, stream)
    for _ in range(100):
        call("cuLaunchKernel", function, 64, 1, 1, 128, 1, 1, 0, stream, 0, 0)
    call("cuEventRecord", end, stream)
    call("cuStreamSynchronize", stream)
    milliseconds = call("cuEventElapsedTime", start, end)
    missing = failure("cuModuleGetFunction", module, b"something")
    call("cuModuleUnload", module)
    return {"milliseconds": milliseconds, "missing": missing}


def physical_memory():
    """Memory by cuMemCreate, mapped twice: what is written through one address is read through the
    other."""
    prop = driver.CUmemAllocationProp()
    prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    size = call("cuMemGetAllocationGranularity", prop, minimum)
    access = driver.CUmemAccessDesc()
    access.location = prop.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    handle = call("cuMemCreate", size, prop, 0)
    places = [call("cuMemAddressReserve", size, 0, 0, 0) for _ in range(2)]
    for place in places:
        call("cuMemMap", place, size, 0, handle, 0)
        call("cuMemSetAccess", place, size, [access], 1)
    got = numpy.zeros(4, dtype=numpy.uint32)
    call("cuMemsetD32", places[0], 11, 4)
    call("cuMemcpyDtoH", got.ctypes.data, places[1], got.nbytes)
    for place in places:
        call("cuMemUnmap", place, size)
        call("cuMemAddressFree", place, size)
    call("cuMemRelease", handle)
    return got.tolist() == [11] * 4


def fill(chunk=64 << 20):
    """Bytes in chunks until refused, and what refused them."""
    held = []
    try:
        while len(held) < 100_000:
            held.append(call("cuMemAlloc", chunk))
    except Failed as failed:
        error = str(failed)
    for pointer in held:
        call("cuMemFree", pointer)
    return {"bytes": len(held) * chunk, "error": error}


def look(device):
    free, total = call("cuMemGetInfo")
    return {
        "devices": call("cuDeviceGetCount"),
        "name": call("cuDeviceGetName", 64, device).split(b"\0")[0].decode(),
        "uuid": bytes(call("cuDeviceGetUuid", device).bytes).hex(),
        "total_property": call("cuDeviceTotalMem", device),
        "free": free,
        "total": total,
        "version": call("cuDriverGetVersion"),
    }


def main():
    device = begin()
    if sys.argv[1:2] == ["hold"]:
        call("cuMemAlloc", int(sys.argv[2]))
        print(json.dumps({"pid": os.getpid()}), flush=True)
        sys.stdin.read()
        return
    seen = look(device)
    seen |= {"round_trip": round_trip(), "launches": launches(), "physical": physical_memory()}
    seen |= {
        "absurd": failure("cuMemAlloc", 1 << 50),
        "fill": fill(),
        "free_after": call("cuMemGetInfo")[0],
    }
    print(json.dumps(seen))


main()
