"""A program that holds memory on a card, and looks at its contents each time that a file appears.

`python idle_program.py MEBIBYTES TICKS ASK` appends `intact` or `lost` to TICKS at the start and for
each file ASK, which it removes. Between two looks it calls no function of the driver. It needs the
standard library and the CUDA driver alone.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

SIZE = int(sys.argv[1]) << 20
TICKS = Path(sys.argv[2])
ASK = Path(sys.argv[3])
#: Bytes that are compared at each end.
LOOK = 4096


def call(name: str, *arguments: object) -> None:
    code = getattr(driver, f"cu{name}")(*arguments)
    if code:
        raise SystemExit(f"cu{name}: error {code}")


def read(address: int) -> bytes:
    contents = ctypes.create_string_buffer(LOOK)
    call("MemcpyDtoH_v2", contents, ctypes.c_uint64(address), ctypes.c_size_t(LOOK))
    return contents.raw


driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
held = ctypes.c_uint64()
call("Init", 0)
call("DevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("CtxSetCurrent", context)
call("MemAlloc_v2", ctypes.byref(held), ctypes.c_size_t(SIZE))
ends = (held.value, held.value + SIZE - LOOK)
written = os.urandom(LOOK)
for end in ends:
    call("MemcpyHtoD_v2", ctypes.c_uint64(end), written, ctypes.c_size_t(LOOK))
while True:
    is_intact = all(read(end) == written for end in ends)
    with TICKS.open("a") as ticks:
        ticks.write("intact\n" if is_intact else "lost\n")
    while not ASK.exists():
        time.sleep(0.02)
    ASK.unlink()
