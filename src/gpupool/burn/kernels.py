"""Holds two kernels as PTX text: one that takes a known time, and one that faults.

A kernel that waits for a clock ends too early on a shared card, because clocks also run in the
neighbour's time slices. So the spin kernel counts iterations, and the iterations of a microsecond
are measured first. Simulated cards run no code: they know these kernels by name and read the time
from the first argument.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_uint64, c_void_p
from typing import Final

from gpupool.burn.driver import CudaDriver

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

#: In the first page, which is never mapped.
FAULT_ADDRESS: Final = 64
#: Threads of a block: the most that CUDA allows, so that two blocks fill a multiprocessor.
_THREADS: Final = 1024
#: Length and number of the launches that measure the time of one iteration.
_PROBE_ITERATIONS: Final = 100_000
_PROBES: Final = 12


class SpinKernel:
    """A kernel that keeps the whole card busy for `kernel_ns`; the constructor measures the card.

    Not thread-safe.
    """

    def __init__(self, driver: CudaDriver, kernel_ns: int) -> None:
        self._driver = driver
        self._function = driver.find_function(driver.load_module(PTX), "gpupool_spin_ns")
        # Enough threads that kernels of two streams cannot run side by side, which would count
        # double.
        self._blocks = 2 * driver.count_multiprocessors()
        self.kernel_ns = kernel_ns
        self._arguments = self._pack_arguments(kernel_ns, _PROBE_ITERATIONS)
        iterations = max(1, round(_PROBE_ITERATIONS * kernel_ns / self._measure_probe_ns()))
        self._arguments = self._pack_arguments(kernel_ns, iterations)

    def _pack_arguments(self, kernel_ns: int, iterations: int) -> ctypes.Array[c_void_p]:
        self._values = (c_uint64(kernel_ns), c_uint64(iterations))  # must outlive the launches
        return (c_void_p * 2)(*(ctypes.cast(ctypes.byref(v), c_void_p).value for v in self._values))

    def _measure_probe_ns(self) -> int:
        driver = self._driver
        stream = self._driver.create_stream()
        begin = driver.create_event()
        end = driver.create_event()
        lengths_ns = []
        for _ in range(_PROBES):
            driver.call("cuEventRecord", begin, stream)
            self.launch(stream)
            driver.call("cuEventRecord", end, stream)
            driver.call("cuEventSynchronize", end)
            lengths_ns.append(driver.measure_elapsed_ns(begin, end))
        # The shortest launch is one that no neighbour's time slice interrupted.
        return max(1, min(lengths_ns))

    def launch(self, stream: c_void_p) -> None:
        """Submit one kernel; blocks while a fence holds the launch back."""
        self._driver.call(
            "cuLaunchKernel",
            self._function,
            self._blocks,
            1,
            1,
            _THREADS,
            1,
            1,
            0,
            stream,
            self._arguments,
            None,
        )


def launch_fault(driver: CudaDriver) -> None:
    """Write to an unmapped address.

    Raises:
        CudaCallFailure: always, with ILLEGAL_ADDRESS. The context fails every later call.
    """
    function = driver.find_function(driver.load_module(PTX), "gpupool_fault")
    address = c_uint64(FAULT_ADDRESS)
    arguments = (c_void_p * 1)(ctypes.cast(ctypes.byref(address), c_void_p).value)
    stream = driver.create_stream()
    driver.call(
        "cuLaunchKernel",
        function,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        stream,
        ctypes.cast(arguments, POINTER(c_void_p)),
        None,
    )
    driver.call("cuStreamSynchronize", stream)
