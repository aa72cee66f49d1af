"""For the tests of the simulated card's engine: engine.h in Python, and an engine in memory of its
own."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_long,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any

from tests.unit.native.front_pool import ROOT, WARNINGS, compiler

MODEL = ROOT / "native" / "simgpu" / "model"
ENGINE_SOURCES = tuple(sorted(MODEL.glob("engine/*.c")))
PROBE = Path(__file__).parent / "engine_probe.c"
US, MS = 1_000, 1_000_000
NEVER = 2**64 - 1
TIME_SLICE, TOGETHER = 0, 1
KERNEL, GRAPH, MEMSET, COPY_DEVICE, COPY_IN, COPY_OUT, RECORD, WAIT, HOST, NOTHING = range(1, 11)
NON_BLOCKING = 1
QUEUE = 1024


class Ticket(Structure):
    _fields_ = (("context", c_uint32), ("generation", c_uint32), ("stream", c_uint32), ("unused", c_uint32),
                ("seq", c_uint64))  # fmt: skip


class Work(Structure):
    _fields_ = (("kind", c_uint32), ("width_milli", c_uint32), ("duration_ns", c_uint64), ("cookie", c_uint64),
                ("launches", c_uint32), ("event", c_uint32), ("after", Ticket))  # fmt: skip


class Config(Structure):
    _fields_ = (
        ("mode", c_uint32),
        ("cards", c_uint32),
        ("slice_ns", c_uint64),
        ("switch_ns", c_uint64),
    )


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "engine_probe_bytes": (c_size_t,),
    "engine_probe_die_at": (c_int, c_void_p, c_long),
    "engine_init": (None, c_void_p, POINTER(Config), c_uint64),
    "engine_context_create": (c_int, c_void_p, c_uint32, c_uint64, c_uint64),
    "engine_context_destroy": (None, c_void_p, c_uint32, c_uint64),
    "engine_context_fail": (None, c_void_p, c_uint32, c_uint32, c_uint64),
    "engine_stream_create": (c_int, c_void_p, c_uint32, c_uint32, c_int32),
    "engine_stream_destroy": (None, c_void_p, c_uint32, c_uint32),
    "engine_event_create": (c_int, c_void_p, c_uint32),
    "engine_event_destroy": (None, c_void_p, c_uint32, c_uint32),
    "engine_submit": (
        c_int,
        c_void_p,
        c_uint32,
        c_uint32,
        POINTER(Work),
        c_uint64,
        POINTER(Ticket),
    ),
    "engine_advance": (None, c_void_p, c_uint64),
    "engine_next_event": (c_uint64, c_void_p),
    "engine_done": (c_int, c_void_p, POINTER(Ticket)),
    "engine_bound": (c_uint64, c_void_p, POINTER(Ticket)),
    "engine_last": (Ticket, c_void_p, c_uint32, c_uint32),
    "engine_oldest": (Ticket, c_void_p, c_uint32, c_uint32),
    "engine_idle": (c_int, c_void_p, c_uint32),
    "engine_event_ns": (c_uint64, c_void_p, c_uint32, c_uint32),
    "engine_host_ready": (c_int, c_void_p, c_uint32, POINTER(c_uint64), POINTER(Ticket)),
    "engine_host_bound": (c_uint64, c_void_p, c_uint32),
    "engine_release": (None, c_void_p, POINTER(Ticket), c_uint64),
    "engine_card_busy": (c_uint64, c_void_p, c_uint32, c_uint64, c_uint64),
    "engine_context_busy": (c_uint64, c_void_p, c_uint32, c_uint64, c_uint64),
    "engine_repair": (None, c_void_p),
    "engine_check": (c_char_p, c_void_p),
}


def compile_engine(folder: Path, *flags: str) -> Any:
    """The engine as a library, with the probe; every warning an error."""
    target = folder / "engine.so"
    subprocess.run(
        [compiler(), "-std=gnu11", "-O2", "-g", "-shared", "-fPIC", f"-I{MODEL}", *WARNINGS, *flags,
         *map(str, ENGINE_SOURCES), str(PROBE), "-o", str(target)],
        check=True,
    )  # fmt: skip
    library = ctypes.CDLL(str(target))
    for name, (result, *arguments) in _SIGNATURES.items():
        getattr(library, name).restype, getattr(library, name).argtypes = result, arguments
    return library


class Refused(Exception):
    """A function of the engine answered with an error."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Engine:
    """An engine and the moment that the test is at. Methods are engine.h's, with `now`
    understood."""

    def __init__(
        self,
        library: Any,
        mode: int = TIME_SLICE,
        cards: int = 1,
        slice_ns: int = 0,
        switch_ns: int = 0,
    ):
        self.library, self.now = library, 0
        self.memory = mmap.mmap(
            -1, library.engine_probe_bytes()
        )  # shared, so that a forked child's changes are seen
        self._view = ctypes.c_char.from_buffer(self.memory)
        self.at = ctypes.addressof(self._view)
        library.engine_init(self.at, byref(Config(mode, cards, slice_ns, switch_ns)), 0)

    def close(self) -> None:
        del self._view
        self.memory.close()

    def _index(self, answer: int) -> int:
        if answer < 0:
            raise Refused(answer)
        return answer

    def context(self, card: int = 0, owner: int = 1) -> int:
        return self._index(self.library.engine_context_create(self.at, card, owner, self.now))

    def stream(self, context: int, flags: int = NON_BLOCKING, priority: int = 0) -> int:
        return self._index(self.library.engine_stream_create(self.at, context, flags, priority))

    def event(self, context: int) -> int:
        return self._index(self.library.engine_event_create(self.at, context))

    def submit(
        self, context: int, stream: int, kind: int, duration: int = 0, **rest: Any
    ) -> Ticket:
        ticket, work = Ticket(), Work(kind=kind, duration_ns=duration, **rest)
        code = self.library.engine_submit(
            self.at, context, stream, byref(work), self.now, byref(ticket)
        )
        if code:
            raise Refused(code)
        return ticket

    def kernel(self, context: int, duration: int, width: int = 0, stream: int = 0) -> Ticket:
        return self.submit(context, stream, KERNEL, duration, width_milli=width)

    def record(self, context: int, stream: int = 0) -> int:
        """A new event, recorded there."""
        event = self.event(context)
        self.submit(context, stream, RECORD, event=event)
        return event

    def advance(self, to: int) -> None:
        self.now = to
        self.library.engine_advance(self.at, to)

    def next_event(self) -> int:
        return int(self.library.engine_next_event(self.at))

    def done(self, ticket: Ticket) -> bool:
        return bool(self.library.engine_done(self.at, byref(ticket)))

    def bound(self, ticket: Ticket) -> int:
        return int(self.library.engine_bound(self.at, byref(ticket)))

    def when_done(self, ticket: Ticket) -> int:
        """Follow the engine's own predictions until it is done."""
        while not self.done(ticket):
            bound = self.bound(ticket)
            assert self.now <= bound < NEVER, "nothing will ever make it go on"
            self.advance(bound)
        return self.now

    def event_ns(self, context: int, event: int) -> int:
        return int(self.library.engine_event_ns(self.at, context, event))

    def fail(self, context: int, error: int) -> None:
        self.library.engine_context_fail(self.at, context, error, self.now)

    def destroy(self, context: int) -> None:
        self.library.engine_context_destroy(self.at, context, self.now)

    def host_ready(self, context: int) -> tuple[int, Ticket] | None:
        cookie, ticket = c_uint64(), Ticket()
        found = self.library.engine_host_ready(self.at, context, byref(cookie), byref(ticket))
        return (cookie.value, ticket) if found else None

    def host_bound(self, context: int) -> int:
        return int(self.library.engine_host_bound(self.at, context))

    def release(self, ticket: Ticket) -> None:
        self.library.engine_release(self.at, byref(ticket), self.now)

    def busy(self, start: int, end: int, card: int = 0) -> int:
        return int(self.library.engine_card_busy(self.at, card, start, end))

    def context_busy(self, context: int, start: int, end: int) -> int:
        return int(self.library.engine_context_busy(self.at, context, start, end))

    def repair(self) -> None:
        self.library.engine_repair(self.at)

    def check(self) -> str | None:
        wrong = self.library.engine_check(self.at)
        return wrong.decode() if wrong else None
