"""What the simulated driver exports and how it is found: every symbol of the headers, twins apart
from their plain functions, look-ups by version, unsupported calls counted.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpupool.probes.simgpu import SimulatedMachine
from tests.unit.native.fence_build import Headers
from tests.unit.native.front_pool import compiler
from tests.unit.native.simgpu_cuda import LIBRARY, environment, make_machine, program, run


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return make_machine(tmp_path)


def exports() -> dict[str, int]:
    """Name to address of the library's dynamic functions."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    )
    return {
        name: int(at, 16)
        for at, name in re.findall(r"^([0-9a-f]+) [TW] (\w+)$", listing.stdout, re.M)
    }


def test_the_library_exports_the_headers_symbols_and_nothing_else_of_cudas(
    headers: Headers,
) -> None:
    names = {name for name in exports() if name.startswith("cu")}
    assert names == set(headers.lists["libcuda"].by_name)
    others = exports().keys() - names
    assert others == {
        "simgpu_unsupported_count",
        "simgpu_unsupported_name",
        "simgpu_symbol_is_implemented",
    }


def test_a_twin_is_another_function_than_its_plain_one(headers: Headers) -> None:
    at = exports()
    twins = [symbol for symbol in headers.lists["libcuda"] if symbol.twin]
    assert len(twins) > 100
    assert [s.name for s in twins if at[s.name] == at[s.plain]] == []


def test_a_program_links_with_lcuda_and_needs_the_drivers_soname(
    machine: Path, tmp_path: Path
) -> None:
    (tmp_path / "user.c").write_text("int cuInit(unsigned); int main(void) { return cuInit(0); }")
    user = tmp_path / "user"
    subprocess.run(
        [compiler(), tmp_path / "user.c", "-o", user, f"-L{LIBRARY.parent}", "-lcuda"], check=True
    )
    dynamic = subprocess.run(
        ["readelf", "-d", user, LIBRARY], capture_output=True, text=True, check=True
    ).stdout
    assert "Shared library: [libcuda.so.1]" in dynamic
    assert "Library soname: [libcuda.so.1]" in dynamic
    subprocess.run(
        [user], env=environment(machine, LD_LIBRARY_PATH=str(LIBRARY.parent)), check=True
    )


def test_a_look_up_gives_the_newest_form_that_the_version_knows_and_the_twin_when_asked(
    machine: Path,
) -> None:
    run(machine, """
        status = c_int(7)
        def look(name, version, flags=0):
            found = c_void_p()
            code = cu.code("GetProcAddress_v2", name, byref(found), version, flags, byref(status))
            assert (code == 0) == (status.value == 0) == bool(found.value), (name, code, status.value)
            return found.value or status.value
        def at(name):
            return cast(getattr(cu.library, name), c_void_p).value
        assert look(b"cuMemAlloc", 3020) == at("cuMemAlloc_v2")
        assert look(b"cuMemAlloc", 2000) == at("cuMemAlloc")
        assert look(b"cuLaunchKernel", 4000) == at("cuLaunchKernel")
        assert look(b"cuLaunchKernel", 7000, 2) == at("cuLaunchKernel_ptsz")
        assert look(b"cuMemcpyHtoD", 7000, 2) == at("cuMemcpyHtoD_v2_ptds")
        assert look(b"cuGetProcAddress", 12000) == at("cuGetProcAddress_v2")
        assert look(b"cuGetProcAddress", 11030) == at("cuGetProcAddress")
        assert look(b"cuLaunchKernelEx", 11000) == 2
        assert look(b"", 0) == look(b"cuNothing", 13000) == 1
        assert cu.code("GetProcAddress_v2", None, byref(c_void_p()), 1, 0, None) == 1
        old = c_void_p()
        cu("GetProcAddress", b"cuInit", byref(old), 2000, 0)
        assert old.value == at("cuInit")
        assert cu.code("GetProcAddress", b"cuNothing", byref(old), 2000, 0) == 500
    """)  # fmt: skip


def test_an_unsupported_call_answers_is_counted_and_is_listed(
    machine: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    run(machine, """
        cu.start()
        assert cu.library.simgpu_unsupported_count() == 0
        for _ in range(3):
            assert cu.code("GreenCtxDestroy", None) == 801
        assert cu.code("MulticastUnbind", 0, 0, 0, 0) == 801
        assert cu.library.simgpu_unsupported_count() == 2
        calls = c_ulong()
        cu.library.simgpu_unsupported_name.restype = c_char_p
        assert cu.library.simgpu_unsupported_name(0, byref(calls)) == b"cuGreenCtxDestroy" and calls.value == 3
        known = cu.library.simgpu_symbol_is_implemented
        names = b"cuMemAlloc_v2", b"cuMemAlloc_v2_ptsz", b"cuLaunchKernel_ptsz", b"cuGreenCtxDestroy"
        assert [known(name) for name in names] == [1, -1, 1, 0]
    """, GPUPOOL_SIMGPU_LOG=str(log))  # fmt: skip
    assert log.read_text().count("unsupported cuGreenCtxDestroy from ") == 3
    with SimulatedMachine(machine) as view:
        assert view.unsupported_calls == 4


def test_the_known_tables_are_given_and_the_vendors_self_test_is_not_answered(
    machine: Path,
) -> None:
    run(machine, """
        def table(text):
            found = c_void_p()
            code = cu.code("GetExportTable", byref(found), bytes.fromhex(text.replace("-", "")))
            return cast(found, POINTER(c_void_p)) if not code else None
        assert table("00000000-0000-0000-0000-000000000000") is None
        assert table("f8cff951-2146-8b4e-b9e2-fb469e7c0dd9") is None
        runtime = table("6bd5fb6c-5bf4-e74a-8987-d93912fd9df9")
        assert runtime[0] == 13 * 8
        context = cu.start()
        values = table("c693336e-1121-df11-a8c3-68f355d89593")
        put = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)(values[0])
        get = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)(values[2])
        gone = []
        @CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
        def destroy(context, key, value):
            gone.append((key, value))
        assert put(context, 11, 22, cast(destroy, c_void_p)) == 0
        value = c_void_p()
        assert get(addressof(value), context, 11) == 0 and value.value == 22
        cu("DevicePrimaryCtxReset_v2", 0)
        assert gone == [(11, 22)]
        test = table("d4082055-bde6-704b-8d34-ba123c66e1f2")
        answer = (c_uint64 * 2)(1, 2)
        assert CFUNCTYPE(c_int, c_uint, c_uint64, c_void_p)(test[1])(13050, 0, addressof(answer)) == 801
        assert list(answer) == [1, 2]
    """)  # fmt: skip


def test_errors_have_their_names_and_words(machine: Path) -> None:
    run(machine, """
        def name(code, what="Name"):
            found = c_char_p()
            result = cu.code("GetError" + what, code, byref(found))
            return found.value if not result else result
        assert name(0) == b"CUDA_SUCCESS" and name(2) == b"CUDA_ERROR_OUT_OF_MEMORY" and name(700).endswith(b"ADDRESS")
        assert name(2, "String") == b"out of memory" and name(12345) == 1 == name(12345, "String")
        assert name(719) == b"CUDA_ERROR_LAUNCH_FAILED"
    """)  # fmt: skip


def test_a_device_answers_every_attribute_that_a_runtime_asks(machine: Path) -> None:
    run(machine, """
        cu("Init", 0)
        value = c_int()
        for attribute in range(1, 150):
            cu("DeviceGetAttribute", byref(value), attribute, 0)
        for unknown in (0, 5000):
            assert cu.code("DeviceGetAttribute", byref(value), unknown, 0) == 1
        assert cu.code("DeviceGetAttribute", byref(value), 1, 2) == 101
        text, again = create_string_buffer(20), c_int()
        cu("DeviceGetPCIBusId", text, 20, 1)
        cu("DeviceGetByPCIBusId", byref(again), text)
        assert again.value == 1
        u, v = create_string_buffer(16), create_string_buffer(16)
        cu("DeviceGetUuid", u, 0)
        cu("DeviceGetUuid_v2", v, 0)
        assert u.raw == v.raw != bytes(16)
        assert cu.get(c_size_t, "DeviceTotalMem_v2", 0) == 15360 * MIB
    """)  # fmt: skip


NULLS = """
        import subprocess
        names = sys.stdin.read().split()
        class Handle(Structure):
            _fields_ = [("bytes", c_char * 64)]
        if MODE != "cold":
            cu.start()
        for name in names:
            print(name, flush=True)
            arguments = [c_uint64(0)] * 14
            if name in ("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcOpenEventHandle"):
                arguments = [c_uint64(0), Handle(), c_uint(0)]
            if name.startswith("cuDevicePrimaryCtxRe"):
                continue
            code = getattr(cu.library, name)(*arguments)
            assert 0 <= code < 1000, (name, code)
            if MODE != "cold":
                cu("CtxSetCurrent", cu.get(c_void_p, "DevicePrimaryCtxRetain", 0))
"""


@pytest.mark.parametrize("mode", ["cold", "warm"])
def test_no_function_stumbles_over_null_pointers(machine: Path, mode: str) -> None:
    names = sorted(name for name in exports() if name.startswith("cu"))
    done = subprocess.run(
        program(f"        MODE = {mode!r}\n" + NULLS), input="\n".join(names), env=environment(machine),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout.split()[-1]}: {done.returncode} {done.stderr}"
