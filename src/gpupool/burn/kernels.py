"""Two kernels of our own as PTX text: one that takes a known time, one that faults.

A kernel that waits for a clock would end early on a card that it shares, for clocks also run in the
neighbour's slices. So the spin counts iterations, and how many make a microsecond is measured first. Simulated
cards run no code; they know these kernels by name and take the time from the first argument.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_uint64, c_void_p
from typing import Final

from gpupool.burn.driver import Driver

PTX: Final = b"""
.version 6.4
.target sm_50
.address_size 64

// ns: for simulated cards. iterations: each multiplies an odd number by an odd number, so it never becomes 0,
// which the compiler cannot know: the loop must stay.
.visible .entry gpupool_spin_ns(.param .u64 ns, .param .u64 iterations)
{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [iterations];
    mov.u32 %r1, %tid.x;
    shl.b32 %r1, %r1, 1;
    or.b32 %r1, %r1, 1;
    setp.eq.u64 %p1, %rd1, 0;
    @%p1 bra DONE;
LOOP:
    mul.lo.u32 %r1, %r1, 1664525;
    sub.u64 %rd1, %rd1, 1;
    setp.ne.u64 %p1, %rd1, 0;
    @%p1 bra LOOP;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 trap;
DONE:
    ret;
}

.visible .entry gpupool_fault(.param .u64 address)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [address];
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
\x00"""

FAULT_ADDRESS: Final = 64
"""In the first page, which is never mapped."""
_THREADS: Final = 1024
_PROBE_ITERATIONS: Final = 100_000
_PROBES: Final = 12


class Spin:
    """A kernel that keeps the whole card busy for a known time. Made for one length."""

    def __init__(self, driver: Driver, kernel_ns: int) -> None:
        self._driver = driver
        self._function = driver.function(driver.module(PTX), "gpupool_spin_ns")
        # Enough threads that kernels of two streams cannot run side by side, which would count double.
        self._blocks = 2 * driver.multiprocessors()
        self.kernel_ns = kernel_ns
        self._arguments = self._prepare(kernel_ns, _PROBE_ITERATIONS)
        iterations = max(1, round(_PROBE_ITERATIONS * kernel_ns / self._probe_ns()))
        self._arguments = self._prepare(kernel_ns, iterations)

    def _prepare(self, kernel_ns: int, iterations: int) -> ctypes.Array[c_void_p]:
        self._values = (c_uint64(kernel_ns), c_uint64(iterations))  # must outlive the launches
        return (c_void_p * 2)(*(ctypes.cast(ctypes.byref(v), c_void_p).value for v in self._values))

    def _probe_ns(self) -> int:
        """The shortest of some launches: one that no neighbour interrupted."""
        driver, stream = self._driver, self._driver.stream()
        begin, end = driver.event(), driver.event()
        found = []
        for _ in range(_PROBES):
            driver.call("cuEventRecord", begin, stream)
            self.launch(stream)
            driver.call("cuEventRecord", end, stream)
            driver.call("cuEventSynchronize", end)
            found.append(driver.elapsed_ns(begin, end))
        return max(1, min(found))

    def launch(self, stream: c_void_p) -> None:
        """Submit one; blocks where a fence holds it back."""
        self._driver.call(
            "cuLaunchKernel", self._function, self._blocks, 1, 1, _THREADS, 1, 1, 0, stream, self._arguments, None
        )


def fault(driver: Driver) -> None:
    """Write where nothing is mapped. Raises CudaRefused (ILLEGAL_ADDRESS); the context is of no use then."""
    function = driver.function(driver.module(PTX), "gpupool_fault")
    address = c_uint64(FAULT_ADDRESS)
    arguments = (c_void_p * 1)(ctypes.cast(ctypes.byref(address), c_void_p).value)
    stream = driver.stream()
    driver.call(
        "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, ctypes.cast(arguments, POINTER(c_void_p)), None
    )
    driver.call("cuStreamSynchronize", stream)
