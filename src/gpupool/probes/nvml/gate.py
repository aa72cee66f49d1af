"""Opens NVML once for this process, and closes it while a step needs every card closed.

NVML opens each card at its start and closes all of them or none. So a card can leave its driver,
or be reset, only while this process has NVML shut down. `suspend` lets the calls in flight end, shuts
NVML down and keeps it so until the step is over; meanwhile every use is refused. See ADR 0058.
Must not know steps: a callback says when one is over.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from gpupool.base.errors import ProbeSuspended, ServiceUnavailable

#: Seconds that calls of the driver may take to return before NVML is closed. A scan of sixteen busy
#: cards takes a few; longer than `events.SLICE_SECONDS`.
CLOSE_SECONDS = 15.0
#: Seconds after which NVML is opened although a step still runs: one that hangs in the kernel must not
#: keep a node's other cards from being read. A card has 60 s to become idle, a vendor's program 60 s.
LIMIT_SECONDS = 300.0
#: Seconds between two looks at a step, for threads that wait for its end.
LOOK_SECONDS = 0.5
#: Errors of NVML whose own text does not tell what to do.
_UNHELPFUL = {
    "LIBRARY_NOT_FOUND": "libnvidia-ml.so.1 is not here: the NVIDIA driver is not installed on this machine",
    "DRIVER_NOT_LOADED": "the NVIDIA driver is installed but its kernel module is not loaded (try: modprobe nvidia)",
    "LIB_RM_VERSION_MISMATCH": "the NVIDIA driver was updated while loaded: reboot, or unload and load its modules",
    # A container without the device nodes gets this error.
    "NO_PERMISSION": "no permission to talk to the NVIDIA driver (are the /dev/nvidia* nodes visible here?)",
}

log = logging.getLogger(__name__)


def _import_binding() -> Any:
    return importlib.import_module("pynvml")


@dataclass
class _Suspension:
    """Why NVML is closed, and when it may be opened; `is_over` is None while the step starts."""

    reason: str
    end: float
    is_over: Callable[[], bool] | None = None


class DriverGate:
    """The state of NVML in this process: open on first use, or suspended. Thread-safe.

    Args:
        import_binding: returns the binding, which is pynvml but for tests.
        close_seconds: how long `suspend` waits for calls in flight.
        limit_seconds: how long a suspension lasts at most.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        import_binding: Callable[[], Any] = _import_binding,
        close_seconds: float = CLOSE_SECONDS,
        limit_seconds: float = LIMIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._import_binding = import_binding
        self._close_seconds = close_seconds
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._library: Any = None
        #: Rises with each shutdown: handles of an older epoch are invalid.
        self._epoch = 0
        self._users = WeakSet[object]()
        self._uses = 0
        self._own = threading.local()
        self._suspensions: dict[str, _Suspension] = {}

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep NVML from being closed inside the block; blocks of one thread may be nested.

        Raises:
            ProbeSuspended: a step needs it closed.
        """
        depth: int = getattr(self._own, "depth", 0)
        if depth == 0:
            with self._changed:
                self._refuse_suspended()
                self._uses += 1
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            if depth == 0:
                with self._changed:
                    self._uses -= 1
                    self._changed.notify_all()

    def attach(self, user: object) -> tuple[Any, int]:
        """Open NVML for a user, where it is not open, and return the binding and the epoch.

        Must run inside `hold`. Raises ServiceUnavailable where the driver does not start.
        """
        with self._changed:
            if self._library is None:
                self._library = self._open()
            self._users.add(user)
            return self._library, self._epoch

    def detach(self, user: object) -> None:
        """Close NVML where this was its last user. Idempotent."""
        with self._changed:
            self._users.discard(user)
            if not self._users:
                self._shut_down()

    def is_current(self, epoch: int) -> bool:
        """Whether what was read in an epoch is still valid."""
        return self._library is not None and self._epoch == epoch

    def explain_suspension(self) -> str:
        """Return why NVML is closed now; empty where it may be used."""
        with self._changed:
            self._drop_ended()
            return next((one.reason for one in self._suspensions.values()), "")

    def await_end(self, seconds: float) -> bool:
        """Block until no step needs NVML closed; false where one still does after some seconds."""
        deadline = self._clock() + seconds
        with self._changed:
            while True:
                self._drop_ended()
                left = deadline - self._clock()
                if not self._suspensions or left <= 0:
                    return not self._suspensions
                self._changed.wait(min(LOOK_SECONDS, left))

    def resume_suspension(self, key: str, reason: str, is_over: Callable[[], bool]) -> None:
        """Go on with a suspension of an earlier process. NVML must not be open yet."""
        with self._changed:
            self._suspensions[key] = self._make_suspension(reason, is_over)

    def end_suspensions(self) -> None:
        """Let NVML be opened, whatever still needs it closed."""
        with self._changed:
            self._suspensions.clear()
            self._changed.notify_all()

    @contextmanager
    def suspend(self, key: str, reason: str, is_over: Callable[[], bool]) -> Iterator[None]:
        """Close NVML for the block and, after it, until the step is over. Blocks for calls in flight.

        Several steps may need it closed at once; it may be opened when the last one is over. An error
        in the block ends the suspension.

        Args:
            key: names the step; the same step may suspend again.
            reason: for people.
            is_over: asked after the block, at each attempt to use NVML.

        Raises:
            ServiceUnavailable: a call has not returned in time; then nothing has changed.
        """
        self._close(key, reason)
        try:
            yield
        except BaseException:
            with self._changed:
                self._suspensions.pop(key, None)
                self._changed.notify_all()
            raise
        with self._changed:
            self._suspensions[key] = self._make_suspension(reason, is_over)

    def _make_suspension(
        self, reason: str, is_over: Callable[[], bool] | None = None
    ) -> _Suspension:
        return _Suspension(reason, self._clock() + self._limit_seconds, is_over)

    def _close(self, key: str, reason: str) -> None:
        deadline = self._clock() + self._close_seconds
        with self._changed:
            before = self._suspensions.get(key)
            self._suspensions[key] = self._make_suspension(reason)
            while self._uses:
                left = deadline - self._clock()
                if left <= 0:
                    self._put_back(key, before)
                    raise ServiceUnavailable(
                        f"NVML was not closed: {self._uses} calls of the driver have not returned "
                        f"for {self._close_seconds:.0f} s",
                        hint="the driver may hang: look for Xid in dmesg",
                    )
                self._changed.wait(left)
            try:
                self._shut_down()
            except ServiceUnavailable:
                self._put_back(key, before)
                raise

    def _put_back(self, key: str, before: _Suspension | None) -> None:
        if before is None:
            del self._suspensions[key]
        else:
            self._suspensions[key] = before
        self._changed.notify_all()

    def _refuse_suspended(self) -> None:
        self._drop_ended()
        for one in self._suspensions.values():
            raise ProbeSuspended(f"NVIDIA's driver is not read now: {one.reason}")

    def _drop_ended(self) -> None:
        for key, one in list(self._suspensions.items()):
            if one.is_over is None:
                continue
            if one.is_over():
                del self._suspensions[key]
            elif self._clock() >= one.end:
                log.error("NVML is opened although a step still needs it closed: %s", one.reason)
                del self._suspensions[key]

    def _open(self) -> Any:
        nvml = self._import_binding()
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as problem:
            raise ServiceUnavailable(_explain_start_problem(nvml, problem)) from problem
        return nvml

    def _shut_down(self) -> None:
        if self._library is None:
            return
        try:
            self._library.nvmlShutdown()
        except self._library.NVMLError as problem:
            raise ServiceUnavailable(f"NVML was not closed: {problem}") from problem
        finally:
            self._library = None
            self._epoch += 1
            self._users.clear()


def _explain_start_problem(nvml: Any, problem: Any) -> str:
    for name, text in _UNHELPFUL.items():
        if getattr(nvml, f"NVML_ERROR_{name}") == problem.value:
            return text
    return f"the NVIDIA driver does not start: {problem}"


#: NVML of this process.
GATE = DriverGate()
