"""Memory of the simulated driver: one budget per card, charged exactly, data that really moves,
others' memory."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.unit.native.simgpu_cuda import MIB, hear, make_machine, run, running, tell, used

HOLD = """
cu.start()
p = cu.alloc(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 30)
print("holding", flush=True)
input()
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return make_machine(tmp_path)


def test_an_allocation_costs_whole_units_and_is_given_back(machine: Path) -> None:
    run(machine, """
        cu.start()
        free, total = cu.memory()
        for size, cost in ((1, 512), (513, 1024), (MIB - 1, MIB), (MIB, 2 * MIB), (2 * MIB + 1, 4 * MIB)):
            p = cu.alloc(size)
            assert free - cu.memory()[0] == cost, (size, free - cu.memory()[0])
            cu("MemFree_v2", p)
            assert cu.memory()[0] == free
        assert cu.code("MemAlloc_v2", byref(c_uint64()), 0) == 1
        assert cu.code("MemFree_v2", 12345) == 1
        assert cu.code("MemFree_v2", p) == 1
        assert cu.code("MemFree_v2", 0) == 0
    """)  # fmt: skip


def test_a_context_costs_memory_and_its_end_gives_everything_back(machine: Path) -> None:
    run(machine, """
        cu.start()
        free, total = cu.memory()
        context = c_void_p()
        cu("CtxCreate_v2", byref(context), 0, 0)
        with_two = cu.memory()[0]
        assert total - free == free - with_two == 120 * MIB, (total - free, free - with_two)
        cu.alloc(64 * MIB)
        cu("CtxDestroy_v2", context)
        assert cu.memory()[0] == free
        cu.alloc(64 * MIB)
        cu("DevicePrimaryCtxReset_v2", 0)
        cu.start()
        assert cu.memory()[0] == free
    """)  # fmt: skip


def test_the_last_granule_is_given_and_not_one_more(machine: Path) -> None:
    run(machine, """
        cu.start()
        whole = cu.memory()[0] // (2 * MIB)
        pointers = [cu.alloc(1 << 30) for _ in range(whole // 512)]
        pointers += [cu.alloc(2 * MIB) for _ in range(whole % 512)]
        assert cu.memory()[0] < 2 * MIB
        assert cu.code("MemAlloc_v2", byref(c_uint64()), 2 * MIB) == OUT_OF_MEMORY
        cu("MemFree_v2", pointers.pop())
        cu.alloc(2 * MIB)
    """)  # fmt: skip


def test_two_processes_fill_one_card_and_a_killed_ones_memory_comes_back(machine: Path) -> None:
    with running(machine, HOLD) as first, running(machine, HOLD) as second:
        assert hear(first) == hear(second) == "holding"
        assert used(machine) == 2 * (1024 + 120) * MIB
        run(machine, """
            cu.start()
            free, total = cu.memory()
            assert total - free == (2 * (1024 + 120) + 120) * MIB
            assert cu.code("MemAlloc_v2", byref(c_uint64()), free + 1) == OUT_OF_MEMORY
        """)  # fmt: skip
        second.send_signal(signal.SIGKILL)
        second.wait(10)
        run(machine, """
            cu.start()
            free, total = cu.memory()
            assert total - free == (1024 + 120 + 120) * MIB, (total - free) >> 20
        """)  # fmt: skip
        tell(first)
        first.wait(10)
    assert used(machine) == 0


def test_fresh_memory_is_zero_and_data_moves_in_every_shape(machine: Path) -> None:
    run(machine, """
        cu.start()
        p = cu.alloc(4 * MIB)
        assert cu.read(p, 4096) == bytes(4096)
        cu.write(p, bytes(range(256)))
        cu("MemcpyDtoD_v2", p + 1000, p, 256)
        assert cu.read(p + 1000, 256) == bytes(range(256))
        cu("Memcpy", p + 5, p, 3)
        assert cu.read(p + 5, 3) == bytes([0, 1, 2])
        cu("MemsetD8_v2", p, 7, 10)
        cu("MemsetD16_v2", p + 16, 0x0102, 4)
        cu("MemsetD32_v2", p + 32, 0x01020304, 2)
        assert cu.read(p, 10) == bytes([7] * 10)
        assert cu.read(p + 16, 8) == bytes([2, 1] * 4)
        assert cu.read(p + 32, 8) == bytes([4, 3, 2, 1] * 2)
        assert cu.code("MemsetD16_v2", p + 1, 0, 4) == 1
        cu("MemsetD2D8_v2", p, 64, 9, 3, 2)
        assert cu.read(p, 4) == bytes([9, 9, 9, 7]) and cu.read(p + 64, 4) == bytes([9, 9, 9, 67])
        pitch, q = c_size_t(), c_uint64()
        cu("MemAllocPitch_v2", byref(q), byref(pitch), 100, 3, 4)
        assert pitch.value == 512
        assert cu.code("MemcpyHtoD_v2", p + 4 * MIB, b"x", 1) == 1
        assert cu.code("MemcpyDtoH_v2", create_string_buffer(8), 0x1000, 8) == 1
    """)  # fmt: skip


def test_arrays_are_charged_and_keep_their_rows_apart(machine: Path) -> None:
    run(machine, """
        class Descriptor(Structure):
            _fields_ = [("w", c_size_t), ("h", c_size_t), ("f", c_int), ("c", c_uint)]
        class Copy(Structure):
            _fields_ = [("sx", c_size_t), ("sy", c_size_t), ("st", c_int), ("sh", c_void_p), ("sd", c_uint64),
                        ("sa", c_void_p), ("sp", c_size_t), ("dx", c_size_t), ("dy", c_size_t), ("dt", c_int),
                        ("dh", c_void_p), ("dd", c_uint64), ("da", c_void_p), ("dp", c_size_t), ("w", c_size_t),
                        ("h", c_size_t)]
        cu.start()
        free = cu.memory()[0]
        array = cu.get(c_void_p, "ArrayCreate_v2", byref(Descriptor(1024, 1024, 0x20, 1)))
        assert free - cu.memory()[0] == 4 * MIB
        text = create_string_buffer(bytes(range(64)), 64)
        cu("Memcpy2D_v2", byref(Copy(st=1, sh=addressof(text), sp=16, dt=3, da=array, dx=8, dy=2, w=16, h=4)))
        back = create_string_buffer(64)
        cu("Memcpy2D_v2", byref(Copy(st=3, sa=array, sx=8, sy=2, dt=1, dh=addressof(back), dp=16, w=16, h=4)))
        assert back.raw == bytes(range(64))
        row = create_string_buffer(16)
        cu("MemcpyAtoH_v2", row, array, 0, 16)
        assert row.raw == bytes(16)
        assert cu.code("Memcpy2D_v2", byref(Copy(st=3, sa=array, dt=1, dh=addressof(back), w=8192, h=1))) == 1
        cu("ArrayDestroy", array)
        assert cu.memory()[0] == free and cu.code("ArrayDestroy", array) == 400
    """)  # fmt: skip


def test_host_and_managed_memory_are_known_by_their_address(machine: Path) -> None:
    run(machine, """
        cu.start()
        free = cu.memory()[0]
        host = cu.get(c_void_p, "MemHostAlloc", 100000, 2)
        assert cu.memory()[0] == free
        assert cu.get(c_uint64, "MemHostGetDevicePointer_v2", host, 0) == host
        managed = cu.get(c_uint64, "MemAllocManaged", 4 * MIB, 1)
        assert free - cu.memory()[0] == 4 * MIB
        ctypes.memset(managed, 5, 100)
        assert cu.read(managed, 100) == bytes([5] * 100)
        own = create_string_buffer(100000)
        cu("MemHostRegister_v2", own, 100000, 0)
        assert cu.code("MemHostRegister_v2", own, 10, 0) == 712
        def fact(kind, attribute, pointer):
            return cu.get(kind, "PointerGetAttribute", attribute, pointer)
        assert fact(c_uint, 2, host) == 1 and fact(c_uint, 2, managed) == 2 and fact(c_uint, 8, managed) == 1
        assert fact(c_uint, 2, addressof(own) + 50) == 1 and fact(c_size_t, 12, managed + 5) == 4 * MIB
        cu("MemHostUnregister", own)
        assert cu.code("MemHostUnregister", own) == 713
        assert cu.code("PointerGetAttribute", byref(c_uint()), 2, addressof(own)) == 1
        cu("MemFreeHost", host)
        cu("MemFree_v2", managed)
        assert cu.memory()[0] == free
    """)  # fmt: skip


def test_the_first_forms_with_addresses_of_32_bits_work(machine: Path) -> None:
    run(machine, """
        cu.start()
        p = cu.get(c_uint, "MemAlloc", 4096)
        cu("MemcpyHtoD", p, b"old", 3)
        out = create_string_buffer(3)
        cu("MemcpyDtoH", out, p, 3)
        assert out.raw == b"old"
        cu("MemFree", p)
    """)  # fmt: skip


VMM = """
        class Prop(Structure):
            _fields_ = [("type", c_int), ("handles", c_int), ("where", c_int), ("id", c_int), ("w", c_void_p),
                        ("flags", c_uint64)]
        class Access(Structure):
            _fields_ = [("where", c_int), ("id", c_int), ("flags", c_int)]
        prop, access = Prop(1, 1, 1, 0), Access(1, 0, 3)
        cu.start()
"""


def test_physical_memory_is_charged_once_and_seen_in_each_place_it_is_mapped(machine: Path) -> None:
    run(machine, VMM + """
        free = cu.memory()[0]
        assert cu.get(c_size_t, "MemGetAllocationGranularity", byref(prop), 0) == 2 * MIB
        assert cu.code("MemCreate", byref(c_uint64()), 1000, byref(prop), 0) == 1
        assert cu.code("MemCreate", byref(c_uint64()), 1 << 40, byref(prop), 0) == OUT_OF_MEMORY
        handle = cu.get(c_uint64, "MemCreate", 4 * MIB, byref(prop), 0)
        assert free - cu.memory()[0] == 4 * MIB
        range_ = cu.get(c_uint64, "MemAddressReserve", 16 * MIB, 0, 0, 0)
        assert cu.code("MemcpyHtoD_v2", range_, b"x", 1) == 1
        cu("MemMap", range_, 4 * MIB, 0, handle, 0)
        assert cu.code("MemcpyHtoD_v2", range_, b"x", 1) == 1
        cu("MemMap", range_ + 8 * MIB, 4 * MIB, 0, handle, 0)
        assert cu.code("MemMap", range_ + 10 * MIB, 2 * MIB, 0, handle, 0) == 1
        cu("MemSetAccess", range_, 4 * MIB, byref(access), 1)
        cu("MemSetAccess", range_ + 8 * MIB, 4 * MIB, byref(access), 1)
        cu.write(range_ + 3 * MIB, b"both places")
        assert cu.read(range_ + 11 * MIB, 11) == b"both places"
        assert cu.code("MemcpyHtoD_v2", range_ + 4 * MIB - 1, b"xx", 2) == 1
        retained = cu.get(c_uint64, "MemRetainAllocationHandle", range_ + MIB)
        assert retained == handle
        cu("MemRelease", handle)
        cu("MemRelease", retained)
        assert cu.code("MemRelease", handle) == 1
        cu("MemUnmap", range_, 4 * MIB)
        assert free - cu.memory()[0] == 4 * MIB
        assert cu.code("MemAddressFree", range_, 16 * MIB) == 1
        cu("MemUnmap", range_ + 8 * MIB, 4 * MIB)
        assert cu.memory()[0] == free
        cu("MemAddressFree", range_, 16 * MIB)
    """)  # fmt: skip


IMPORTING = """
class Access(Structure):
    _fields_ = [("where", c_int), ("id", c_int), ("flags", c_int)]
cu.start()
free = cu.memory()[0]
handle = cu.get(c_uint64, "MemImportFromShareableHandle", int(sys.argv[1]), 1)
range_ = cu.get(c_uint64, "MemAddressReserve", 2 * MIB, 0, 0, 0)
cu("MemMap", range_, 2 * MIB, 0, handle, 0)
cu("MemSetAccess", range_, 2 * MIB, byref(Access(1, 0, 3)), 1)
assert cu.memory()[0] == free
assert cu.read(range_, 15) == b"from the parent"
cu.write(range_, b"from the child!")
"""


def test_a_descriptor_of_physical_memory_works_in_another_process_and_costs_it_nothing(
    machine: Path,
) -> None:
    run(machine, VMM + f"""
        CHILD = {IMPORTING!r}
        """ + """
        import subprocess
        handle = cu.get(c_uint64, "MemCreate", 2 * MIB, byref(prop), 0)
        fd = cu.get(c_int, "MemExportToShareableHandle", handle, 1, 0)
        range_ = cu.get(c_uint64, "MemAddressReserve", 2 * MIB, 0, 0, 0)
        cu("MemMap", range_, 2 * MIB, 0, handle, 0)
        cu("MemSetAccess", range_, 2 * MIB, byref(access), 1)
        cu.write(range_, b"from the parent")
        subprocess.run(program(CHILD) + [str(fd)], pass_fds=[fd], check=True)
        assert cu.read(range_, 15) == b"from the child!"
    """)  # fmt: skip


def test_a_pool_keeps_what_its_threshold_says_and_gives_the_rest_back_at_a_wait(
    machine: Path,
) -> None:
    run(machine, """
        cu.start()
        free = cu.memory()[0]
        pool = cu.get(c_void_p, "DeviceGetDefaultMemPool", 0)
        def fact(attribute):
            value = c_uint64()
            cu("MemPoolGetAttribute", pool, attribute, byref(value))
            return value.value
        stream = cu.stream()
        p = cu.get(c_uint64, "MemAllocAsync", 3 * MIB, stream)
        assert (fact(5), fact(7)) == (4 * MIB, 3 * MIB)
        q = cu.get(c_uint64, "MemAllocAsync", MIB, stream)
        assert (fact(5), fact(7)) == (4 * MIB, 4 * MIB)
        assert free - cu.memory()[0] == 4 * MIB
        cu("MemsetD8Async", p, 1, 3 * MIB, stream)
        cu("MemFreeAsync", p, stream)
        assert (fact(5), fact(7)) == (4 * MIB, MIB)
        cu("StreamSynchronize", stream)
        assert (fact(5), fact(6), fact(8)) == (2 * MIB, 4 * MIB, 4 * MIB)
        cu("MemPoolSetAttribute", pool, 4, byref(c_uint64(1 << 40)))
        cu("MemFreeAsync", q, stream)
        cu("StreamSynchronize", stream)
        assert free - cu.memory()[0] == 2 * MIB
        cu("MemPoolTrimTo", pool, 0)
        assert cu.memory()[0] == free
        assert cu.code("MemAllocAsync", byref(c_uint64()), 1 << 40, stream) == OUT_OF_MEMORY
        assert cu.code("MemFreeAsync", q, stream) == 1
    """)  # fmt: skip


EXPORTER = """
cu.start()
p = cu.alloc(4 * MIB)
cu.write(p, b"written before")
handle = create_string_buffer(64)
cu("IpcGetMemHandle", handle, p)
print(handle.raw.hex(), flush=True)
input()
print(cu.read(p, 14).decode(), flush=True)
input()
"""

IMPORTER = """
class Handle(Structure):
    _fields_ = [("bytes", c_char * 64)]
cu.start()
handle = Handle.from_buffer_copy(bytes.fromhex(sys.stdin.readline()))
free = cu.memory()[0]
p = cu.get(c_uint64, "IpcOpenMemHandle_v2", handle, 1)
again = cu.get(c_uint64, "IpcOpenMemHandle_v2", handle, 1)
assert p == again and cu.memory()[0] == free
assert cu.read(p, 14) == b"written before"
cu.write(p, b"by the other's")
cu("IpcCloseMemHandle", p)
assert cu.read(p, 5) == b"by th"
cu("IpcCloseMemHandle", p)
assert cu.code("IpcCloseMemHandle", p) == 1
print("done", flush=True)
sys.stdin.readline()
assert cu.code("IpcOpenMemHandle_v2", byref(c_uint64()), handle, 1) == 400
print("gone", flush=True)
"""


def test_memory_opened_by_another_process_is_one_memory_and_only_its_owner_pays(
    machine: Path,
) -> None:
    with running(machine, EXPORTER) as owner, running(machine, IMPORTER) as other:
        tell(other, hear(owner))
        assert hear(other) == "done"
        tell(owner)
        assert hear(owner) == "by the other's"
        assert used(machine) == (4 + 2 * 120) * MIB
        owner.kill()
        owner.wait(10)
        tell(other)
        assert hear(other) == "gone"


def test_touching_more_than_the_host_has_is_refused_and_nobody_is_killed(tmp_path: Path) -> None:
    run(make_machine(tmp_path, "4xH200"), """
        cu.start()
        with open("/proc/meminfo") as facts:
            host = next(int(line.split()[1]) * 1024 for line in facts if line.startswith("MemTotal"))
        size = min(host + GIB, cu.memory()[0])
        p = cu.alloc(size)
        assert size <= host or cu.code("MemsetD8_v2", p, 1, size) == OUT_OF_MEMORY
        cu.write(p + size - 5, b"still")
        assert cu.read(p + size - 5, 5) == b"still"
    """)  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_sequence_of_calls_is_charged_as_the_rule_says(machine: Path, seed: int) -> None:
    run(machine, f"SEED = {seed}\n" + VMM.replace("\n        ", "\n") + """
import random
def rule(size):
    unit = 512 if size < MIB else 2 * MIB
    return -(-size // unit) * unit
dice, plain, pooled, physical = random.Random(SEED), {}, {}, {}
free, threshold, reserved = cu.memory()[0], 0, 0
pool = cu.get(c_void_p, "DeviceGetDefaultMemPool", 0)
def pool_needs():
    used = sum(-(-size // 512) * 512 for size in pooled.values())
    return -(-used // (2 * MIB)) * 2 * MIB
def charged():
    return sum(map(rule, plain.values())) + sum(physical.values()) + reserved
for step in range(1500):
    size = int(2 ** dice.uniform(0, 31))
    kind = dice.choice(("plain", "plain", "pooled", "physical", "free", "free", "free", "wait"))
    left = cu.memory()[0]
    assert free - left == charged(), (step, free - left, charged())
    if kind == "plain":
        p = c_uint64()
        code = cu.code("MemAlloc_v2", byref(p), size)
        assert (code == 0) == (rule(size) <= left) and code in (0, OUT_OF_MEMORY), (step, size, left, code)
        if not code:
            plain[p.value] = size
    elif kind == "pooled":
        p = c_uint64()
        pooled[None] = size
        grows = max(0, pool_needs() - reserved)
        del pooled[None]
        code = cu.code("MemAllocAsync", byref(p), size, None)
        assert (code == 0) == (grows <= left), (step, size, left, code)
        if not code:
            pooled[p.value] = size
            reserved += grows
    elif kind == "physical":
        h = c_uint64()
        size = -(-size // (2 * MIB)) * 2 * MIB
        code = cu.code("MemCreate", byref(h), size, byref(prop), 0)
        assert (code == 0) == (size <= left), (step, size, left, code)
        if not code:
            physical[h.value] = size
    elif kind == "wait":
        cu("CtxSynchronize")
        reserved = min(reserved, pool_needs())
    else:
        held = [(d, p) for d in (plain, pooled, physical) for p in d]
        if held:
            d, p = dice.choice(held)
            cu({id(plain): "MemFree_v2", id(pooled): "MemFreeAsync", id(physical): "MemRelease"}[id(d)], p,
               *[None] * (d is pooled))
            del d[p]
            if d is plain:
                reserved = min(reserved, pool_needs())
""")  # fmt: skip
