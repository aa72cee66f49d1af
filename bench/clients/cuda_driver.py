"""Our ctypes driver of loads (`burn/driver`) beside NVIDIA's cuda-bindings, on a simulated card.

`python -m bench.clients.cuda_driver` runs both in one share of a simulated pool and prints the
processor time and the memory that a start costs, and the time of a call. The peer is not locked:
`uv pip install --target DIR 'cuda-bindings==13.5.*'`, then PYTHONPATH=DIR.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
from collections.abc import Sequence

from bench.pool import Pool, running_pool

ROUNDS = 7
#: Calls of `cuMemGetInfo` that are timed.
CALLS = 20_000

OWN = """
from gpupool.burn.driver import CudaDriver
driver = CudaDriver()
from ctypes import byref, c_size_t
free, total = c_size_t(), c_size_t()
def call():
    driver.call("cuMemGetInfo_v2", byref(free), byref(total))
"""

BINDINGS = """
from cuda.bindings import driver
def check(answer):
    if answer[0]:
        raise RuntimeError(answer[0])
    return answer[1:]
check(driver.cuInit(0))
[context] = check(driver.cuDevicePrimaryCtxRetain(0))
check(driver.cuCtxSetCurrent(context))
def call():
    check(driver.cuMemGetInfo())
"""

MEASURE = """
import json, resource, sys, time
def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
memory_before = memory()
begin = time.process_time()
{source}
imported = (time.process_time() - begin) * 1000
memory_after = memory()
begin = time.process_time()
for _ in range({calls}):
    call()
each = (time.process_time() - begin) / {calls} * 1e6
print(json.dumps([imported, memory_after - memory_before, each]))
"""


def measure_driver(pool: Pool, source: str) -> list[float]:
    """Run one driver in a share; return ms to start, MiB, and microseconds of a call."""
    program = MEASURE.format(source=source, calls=CALLS)
    out = pool.gpupool("run", "-q", "--gpu", "0.5", "--", sys.executable, "-c", program)
    measured: list[float] = json.loads(out)
    return measured


def main(words: Sequence[str]) -> int:
    """Measure what is installed, in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes of each kind")
    options = parser.parse_args(words)
    ways = {"burn/driver": OWN}
    if importlib.util.find_spec("cuda"):
        ways["cuda-bindings"] = BINDINGS
    found: dict[str, list[list[float]]] = {name: [] for name in ways}
    with running_pool("1x1xL40S") as pool:
        for _ in range(options.rounds):
            for way, source in ways.items():
                found[way].append(measure_driver(pool, source))
    print("| driver | ms to start | MiB | µs per call |\n|---|---|---|---|")
    for way, rows in found.items():
        started, memory, each = map(statistics.median, zip(*rows, strict=True))
        print(f"| {way} | {started:.1f} | {memory:.1f} | {each:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
