"""Describes the layout of the simulated machine's file.

It is that of native/simgpu/model/machine/machine.h and engine/engine.h; a test compares every
offset with what a C compiler makes of the headers.
"""

from __future__ import annotations

import ctypes
from typing import Final

# Names and values are those of the headers.
MAGIC: Final = int.from_bytes(b"PSIMMAC1", "little")
LAYOUT: Final = 1
CARDS: Final = 128
PROCESSES: Final = 1024
KINDS: Final = 8
MANAGED_KIND: Final = 3
NESTED: Final = 2
FAULTS: Final = 64
ENDED: Final = 48
SAMPLES: Final = 32
SAMPLE_NS: Final = 100_000_000
CONTEXTS: Final = 1024
STREAMS: Final = 256
ITEMS: Final = 2048
EVENTS: Final = 16384

CLOCK_REAL: Final = 0
CLOCK_VIRTUAL: Final = 1
TIME_SLICE: Final = 0
TOGETHER: Final = 1
FAULT_XID: Final = 1
FAULT_ECC_CORRECTED: Final = 2
FAULT_ECC_UNCORRECTED: Final = 3
FAULT_LOST: Final = 4
FAULT_HEALED: Final = 5
SUSPENDED: Final = 2

#: NVIDIA's XID catalogue, and what cuda.h calls what a program then sees; the same table as in
#: machine_faults.c.
XID_ERRORS: Final = {
    **dict.fromkeys((13, 43, 45, 69, 109), 719),
    31: 700,
    **dict.fromkeys((48, 94, 95), 214),
    74: 220,
    **dict.fromkeys((62, 79, 119, 120), 999),
}

_u8 = ctypes.c_uint8
_u16 = ctypes.c_uint16
_u32 = ctypes.c_uint32
_i32 = ctypes.c_int32
_u64 = ctypes.c_uint64


class SimCard(ctypes.LittleEndianStructure):
    """struct sim_card."""

    _fields_ = (
        ("uuid", _u8 * 16),
        ("name", ctypes.c_char * 64),
        ("memory_bytes", _u64),
        ("reserved_bytes", _u64),
        ("context_bytes", _u64),
        ("granule_bytes", _u64),
        ("launch_ns", _u64),
        ("memory_bandwidth", _u64),
        ("link_bandwidth", _u64),
        ("multiprocessors", _u32),
        ("threads_per_multiprocessor", _u32),
        ("compute_major", _u32),
        ("compute_minor", _u32),
        ("pci_domain", _u32),
        ("pci_bus", _u32),
        ("pci_device", _u32),
        ("pci_device_id", _u32),
        ("sm_clock_mhz", _u32),
        ("memory_clock_mhz", _u32),
        ("memory_bus_bits", _u32),
        ("l2_bytes", _u32),
        ("power_idle_mw", _u32),
        ("power_limit_mw", _u32),
        ("numa_node", _i32),
        ("minor", _u32),
        ("lost", _u32),
        ("needs_reset", _u32),
        ("last_xid", _u32),
        ("ecc_enabled", _u32),
        ("ecc_corrected", _u64),
        ("ecc_uncorrected", _u64),
        ("unused", _u8 * 280),
    )


class SimFault(ctypes.LittleEndianStructure):
    """struct sim_fault."""

    _fields_ = (
        ("time_ns", _u64),
        ("card", _u32),
        ("xid", _u32),
        ("error", _u32),
        ("pid", _u32),
        ("kind", _u32),
        ("count", _u32),
    )


class SimEnded(ctypes.LittleEndianStructure):
    """struct sim_ended."""

    _fields_ = (
        ("owner", _u64),
        ("pid_namespace", _u64),
        ("gpu_ns", _u64),
        ("card", _u32),
        ("unused", _u32),
    )


class SimHeader(ctypes.LittleEndianStructure):
    """struct sim_header."""

    _fields_ = (
        ("magic", _u64),
        ("layout", _u32),
        ("cards", _u32),
        ("size", _u64),
        ("clock", _u32),
        ("mode", _u32),
        ("slice_ns", _u64),
        ("switch_ns", _u64),
        ("cuda_version", _u32),
        ("nvml_version", _u32),
        ("driver_version", ctypes.c_char * 32),
        ("name", ctypes.c_char * 64),
        ("boot", _u8 * 16),
        ("virtual_ns", _u64),
        ("lock", _u64),
        ("wake", _u32),
        ("waiters", _u32),
        ("faults", _u64),
        ("faults_handled", _u64),
        ("high_water", _u32),
        ("repairs", _u32),
        ("unsupported", _u64),
        ("unused", _u64 * 2),
        ("fault", SimFault * FAULTS),
        ("ended", _u64),
        ("ended_context", SimEnded * ENDED),
        ("rest", _u8 * (4096 - 248 - 32 * FAULTS - 32 * ENDED)),
    )


class SimProcess(ctypes.LittleEndianStructure):
    """struct sim_process."""

    _fields_ = (
        ("owner", _u64),
        ("waiting", _u32),
        ("flags", _u32),
        ("since_ns", _u64),
        ("image", _u64),
        ("pid_namespace", _u64),
        ("limits", _u64 * NESTED),
        ("suspension", _u64),
        ("context", _u16 * CARDS),
        ("memory", _u64 * KINDS * CARDS),
    )


class SimSample(ctypes.LittleEndianStructure):
    """struct engine_sample."""

    _fields_ = (("number", _u64), ("busy_ns", _u64))


class SimContext(ctypes.LittleEndianStructure):
    """struct engine_context."""

    _fields_ = (
        ("owner", _u64),
        ("generation", _u32),
        ("card", _u16),
        ("free", _u16),
        ("error", _u32),
        ("queued", _u32),
        ("fresh", _u32),
        ("hosts", _u32),
        ("order", _u64),
        ("active", _u64 * (STREAMS // 64)),
        ("gpu_ns", _u64),
        ("work_ns", _u64),
        ("copy_ns", _u64),
        ("wait_ns", _u64),
        ("launches", _u64),
        ("copies", _u64),
        ("event_hint", _u32),
        ("events_fresh", _u32),
        ("linked", _u64 * (STREAMS // 64)),
        ("unused", _u64 * 4),
        ("sample", SimSample * SAMPLES),
        ("stream", _u64 * 8 * STREAMS),
        ("item", _u64 * 8 * ITEMS),
        ("event", _u64 * 2 * EVENTS),
    )


class SimEngineCard(ctypes.LittleEndianStructure):
    """struct engine_card."""

    _fields_ = (
        ("current", _u32),
        ("last", _u32),
        ("slice_end_ns", _u64),
        ("ready_ns", _u64),
        ("busy_ns", _u64),
        ("copy_ns", _u64),
        ("switches", _u64),
        ("launches", _u64),
        ("waiting", _u64 * (CONTEXTS // 64)),
        ("spare", _u64),
        ("sample", SimSample * SAMPLES),
    )


class SimEngine(ctypes.LittleEndianStructure):
    """struct engine; its struct engine_config is `mode` to `switch_ns`."""

    _fields_ = (
        ("now_ns", _u64),
        ("mode", _u32),
        ("cards", _u32),
        ("slice_ns", _u64),
        ("switch_ns", _u64),
        ("high_water", _u32),
        ("ready", _u32),
        ("active", _u64 * (CARDS // 64)),
        ("unused", _u64 * 24),
        ("card", SimEngineCard * CARDS),
        ("context", SimContext * CONTEXTS),
    )


class MachineFile(ctypes.LittleEndianStructure):
    """struct sim_machine: the whole file."""

    _fields_ = (
        ("header", SimHeader),
        ("card", SimCard * CARDS),
        ("process", SimProcess * PROCESSES),
        ("engine", SimEngine),
    )
