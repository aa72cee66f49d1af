"""numba-cuda end to end: a kernel compiled by NVVM, linked, loaded and launched; arrays there and
back; memory's end.

Prints one JSON object. The kernel's results are not looked at: simulated cards do not compute.
"""

import json

import numpy
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


def arrays():
    sent = numpy.random.default_rng(1).random(1 << 18)
    on_card = cuda.to_device(sent)
    copy = cuda.device_array_like(on_card)
    copy.copy_to_device(on_card)
    return bool((copy.copy_to_host() == sent).all())


def launches():
    n = 1 << 16
    a, b, c = (cuda.to_device(numpy.ones(n, dtype=numpy.float32)) for _ in range(3))
    add[n // 256, 256](a, b, c)  # compiled by now
    start, end, stream = cuda.event(), cuda.event(), cuda.stream()
    start.record(stream)
    for _ in range(50):
        add[n // 256, 256, stream](a, b, c)
    end.record(stream)
    end.synchronize()
    return {
        "milliseconds": cuda.event_elapsed_time(start, end),
        "ptx": any(".visible .entry" in text for text in add.inspect_asm().values()),
        "registers": max(add.get_regs_per_thread().values()),
    }


def fill(chunk=64 << 20):
    held = []
    error = None
    try:
        while len(held) < 100_000:
            held.append(cuda.device_array(chunk, dtype=numpy.uint8))
    except CudaAPIError as failed:
        error = failed.msg
    return {"bytes": len(held) * chunk, "error": error}


device = cuda.get_current_device()
free, total = cuda.current_context().get_memory_info()
seen = {
    "name": device.name.decode() if isinstance(device.name, bytes) else device.name,
    "free": free,
    "total": total,
}
seen |= {"arrays": arrays(), "launches": launches(), "fill": fill()}
seen["again"] = cuda.device_array(64 << 20, dtype=numpy.uint8).size
print(json.dumps(seen))
