"""A program on a card that makes one call of the driver for each line that it reads.

It prints `ready` when it holds memory, and `CALL CODE` after each call. It needs the standard
library and the CUDA driver alone.
"""

import ctypes
import sys

driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
held = ctypes.c_uint64()
stream = ctypes.c_void_p()
SIZE = ctypes.c_size_t(1 << 20)


def copy() -> int:
    return int(driver.cuMemcpyHtoD_v2(held, b"x" * 64, ctypes.c_size_t(64)))


def allocate() -> int:
    return int(driver.cuMemAlloc_v2(ctypes.byref(held), SIZE))


def free() -> int:
    return int(driver.cuMemFree_v2(held))


def query() -> int:
    return int(driver.cuStreamQuery(stream))


def current() -> int:
    found = ctypes.c_void_p()
    return int(driver.cuCtxGetCurrent(ctypes.byref(found)))


CALLS = {"copy": copy, "allocate": allocate, "free": free, "query": query, "context": current}

for code in (
    driver.cuInit(0),
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
    driver.cuCtxSetCurrent(context),
    driver.cuMemAlloc_v2(ctypes.byref(held), SIZE),
    driver.cuStreamCreate(ctypes.byref(stream), 0),
):
    assert code == 0, code
print("ready", flush=True)
for line in sys.stdin:
    call = line.strip()
    print(call, CALLS[call](), flush=True)
