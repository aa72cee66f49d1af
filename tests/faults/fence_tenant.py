"""A job's command for the fence's faults: processes that allocate, write, launch and are killed,
without end.

`python fence_tenant.py PROCESSES SEED WRONG_DIRECTORY`. The command itself uses no card: it starts
the processes and starts each anew when it was killed. Each forks a child before it touches the
card, which uses the card like its parent, and one afterwards, which inherits everything and must
hold nothing. Any answer of the driver other than success and out of memory is written to a file of
its own in WRONG_DIRECTORY, as is an allocation that succeeds beyond any share.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from gpupool.base.errors import CudaCallFailure
from gpupool.burn.driver import OUT_OF_MEMORY, CudaDriver
from gpupool.burn.kernels import SpinKernel

MIB = 1 << 20
SIZES = (1, 2, 3, 16, 40, 100)
BEYOND = 9000 * MIB
"""More than any job of these tests is given."""
KERNEL_NS = 300_000


def tell(wrong: Path, text: str) -> None:
    (wrong / f"{os.environ['GPUPOOL_JOB']}-{os.getpid()}").write_text(text)


def take(driver: CudaDriver, size: int) -> int | None:
    """None where the share has no room for it."""
    try:
        return driver.allocate_memory(size)
    except CudaCallFailure as error:
        if error.details["result"] != OUT_OF_MEMORY:
            raise
        return None


def await_context() -> CudaDriver:
    """A share that is full has no room for another context either."""
    while True:
        try:
            return CudaDriver()
        except CudaCallFailure as error:
            if error.details["result"] != OUT_OF_MEMORY:
                raise
        time.sleep(0.1)  # others give back at their leisure


def one_turn(driver: CudaDriver, spin: SpinKernel, held: list[int], chance: random.Random) -> None:
    action = chance.random()
    stream = None
    if action < 0.45:
        place = take(driver, chance.choice(SIZES) * MIB)
        if place is None:
            while held[2:]:
                driver.free_memory(held.pop())
        else:
            held.append(place)
            driver.call("cuMemsetD8Async", place, 7, MIB, stream)
    elif action < 0.65 and held:
        driver.free_memory(held.pop(chance.randrange(len(held))))
    elif action < 0.7:
        if take(driver, BEYOND) is not None:
            raise AssertionError("more than any share was given")
    else:
        for _ in range(chance.randint(1, 10)):
            spin.launch(stream)  # type: ignore[arg-type]  # the null stream
        driver.call("cuCtxSynchronize")


def work(seed: str, wrong: Path) -> None:
    chance = random.Random(seed)
    if os.fork() == 0:
        chance = random.Random(f"{seed}-child")
    try:
        driver = await_context()
        spin, held = SpinKernel(driver, KERNEL_NS), list[int]()
        if os.fork() == 0:
            signal.pause()
        while True:
            one_turn(driver, spin, held, chance)
            time.sleep(chance.uniform(0, 0.02))  # a program does other things too
    except BaseException as error:
        tell(wrong, f"{type(error).__name__}: {error}")
        raise


def main() -> None:
    count, seed, wrong = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    for number in range(1000):
        if number >= count:
            os.waitpid(-1, 0)  # one was killed
        if os.fork() == 0:
            work(f"{seed}-{number}", wrong)


if __name__ == "__main__":
    main()
