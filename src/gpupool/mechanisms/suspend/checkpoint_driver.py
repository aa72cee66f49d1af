"""Calls the CUDA driver's checkpoint functions, which move the state of another process by its pid.

Names, numbers and structures are those of cuda.h (CUDA 12.8 and later, driver R570). The calls act
on the process that is named, not on the caller, so a job needs nothing loaded. A call blocks until
the driver of that process has answered, so it belongs into a process of its own.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from pathlib import Path
from typing import Final, Protocol

from gpupool.base.errors import ServiceUnavailable

#: CUDA_ERROR_INVALID_VALUE: the driver knows no such process.
UNKNOWN_PROCESS: Final = 1
#: CUDA_ERROR_NOT_INITIALIZED: of a caller that has called cuInit, it is about the other process.
NOT_INITIALIZED: Final = 3
#: CUDA_ERROR_OUT_OF_MEMORY: the card has too little left for a restore.
OUT_OF_MEMORY: Final = 2
#: CUDA_ERROR_NOT_READY: submitted work did not end within the timeout of a lock.
STILL_BUSY: Final = 600
#: CUDA_ERROR_NOT_SUPPORTED: managed memory, memory shared between processes, MIG or MPS.
UNSUPPORTED: Final = 801
#: Bytes of each argument structure.
_ARGUMENT_BYTES: Final = 64


class ProcessState(IntEnum):
    """CUprocessState."""

    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2
    FAILED = 3


class CheckpointCallError(Exception):
    """The driver refused a call; `code` is its CUresult."""

    def __init__(self, call: str, pid: int, code: int) -> None:
        super().__init__(f"{call} of process {pid}: CUDA error {code}")
        self.call = call
        self.pid = pid
        self.code = code

    def describe(self) -> str:
        """Return the reason for people, with the pid."""
        if self.code == STILL_BUSY:
            return f"process {self.pid} has work on a card that does not end"
        if self.code == UNSUPPORTED:
            return (
                f"the driver cannot suspend process {self.pid}: it uses managed memory, or memory "
                "that it shares with another process (CUDA IPC, NCCL within the node)"
            )
        if self.code == OUT_OF_MEMORY:
            return f"a card has too little memory left for process {self.pid}"
        return f"the driver refused to {self.call} process {self.pid} (CUDA error {self.code})"


class ProcessDriver(Protocol):
    """The moves of one process. Each raises CheckpointCallError where the driver refuses."""

    def read_state(self, pid: int) -> ProcessState | None:
        """Return the state; None where the process does not use the driver."""
        ...

    def lock(self, pid: int, timeout_ms: int) -> None:
        """Block new calls of the process and wait for its submitted work."""
        ...

    def checkpoint(self, pid: int) -> None:
        """Move the memory of a locked process to the host."""
        ...

    def restore(self, pid: int) -> None:
        """Move it back; the process stays locked."""
        ...

    def unlock(self, pid: int) -> None: ...


class CheckpointDriver:
    """The calls of one libcuda.so.1, loaded into this process."""

    def __init__(self, library: Path) -> None:
        """Load the driver and start it; no context is made.

        Raises:
            ServiceUnavailable: It cannot be loaded or started, or is older than R570.
        """
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise ServiceUnavailable(f"the CUDA driver cannot be loaded: {error}") from error
        if not hasattr(self._library, "cuCheckpointProcessLock"):
            raise ServiceUnavailable(
                f"{library} has no checkpoint calls", hint="they came with driver R570"
            )
        # A restore needs cuInit in the caller, unless the driver is in persistence mode (cuda.h).
        code = self._library.cuInit(0)
        if code:
            raise ServiceUnavailable(f"the CUDA driver did not start: error {code}")

    def read_state(self, pid: int) -> ProcessState | None:
        state = ctypes.c_int()
        code = self._library.cuCheckpointProcessGetState(pid, ctypes.byref(state))
        if code in (UNKNOWN_PROCESS, NOT_INITIALIZED):
            return None
        if code:
            raise CheckpointCallError("read the state of", pid, code)
        return ProcessState(state.value)

    def lock(self, pid: int, timeout_ms: int) -> None:
        arguments = (ctypes.c_uint32 * (_ARGUMENT_BYTES // 4))(timeout_ms)
        self._call("lock", "Lock", pid, ctypes.byref(arguments))

    def checkpoint(self, pid: int) -> None:
        self._call("checkpoint", "Checkpoint", pid, None)

    def restore(self, pid: int) -> None:
        self._call("restore", "Restore", pid, None)

    def unlock(self, pid: int) -> None:
        self._call("unlock", "Unlock", pid, None)

    def _call(self, word: str, name: str, pid: int, arguments: object) -> None:
        code = getattr(self._library, f"cuCheckpointProcess{name}")(pid, arguments)
        if code:
            raise CheckpointCallError(word, pid, code)
