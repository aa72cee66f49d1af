"""Helper processes that never outlive their owner: shared by the tests' and the benches' real
parts."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence

PR_SET_PDEATHSIG = 1  # linux/prctl.h

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_owner(signal_number: signal.Signals) -> Callable[[], None]:
    """A `preexec_fn`: the child gets the signal when the thread that started it dies, by kill -9
    too.

    It runs after subprocess changed the child's uid, which would have cleared the request.
    """
    owner = os.getpid()

    def ask_the_kernel() -> None:
        if _libc.prctl(PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != owner:
            os._exit(1)

    return ask_the_kernel


def stop_surely(
    process: subprocess.Popen[bytes], signals: Sequence[signal.Signals], seconds_each: float = 10
) -> None:
    """Send each signal in turn, giving each its time, until the process has ended; SIGKILL comes
    last."""
    for signal_number in (*signals, signal.SIGKILL):
        process.send_signal(signal_number)
        try:
            process.wait(seconds_each)
            return
        except subprocess.TimeoutExpired:
            continue
