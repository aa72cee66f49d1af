"""The simulated card's CUDA runtime: every symbol of the vendor's, one way to the driver, errors
kept for each thread.

What it does with a working card is in tests/cuda; here it meets no driver, or one that only records
what it is asked.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from gpupool_native import simgpu_dir

MAJORS = (12, 13)
HERE = Path(__file__).parent


def vendor_root(major: int) -> Path:
    """Where the vendor's runtime package lies: headers to compile against, a library to compare
    symbols with."""
    nvidia = importlib.util.find_spec("nvidia")
    assert nvidia is not None
    folder = {12: "cuda_runtime", 13: "cu13"}[major]
    return next(
        Path(p) / folder
        for p in nvidia.submodule_search_locations or ()
        if (Path(p) / folder).exists()
    )


def exported(library: Path) -> dict[str, str]:
    """Function name to version node, of the defined dynamic symbols."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    return dict(re.findall(r" [TW] (\w*cuda\w+)@+([\w.]+)$", listing, re.M))


def ours(major: int) -> Path:
    return simgpu_dir() / f"libcudart.so.{major}"


@pytest.fixture(scope="module")
def recording_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1"]
    subprocess.run([*command, HERE / "cudart_driver.c"], check=True)
    return folder


class Ask(Protocol):
    def __call__(self, major: int, code: str, driver: Path | None = None) -> str: ...


@pytest.fixture
def ask(recording_driver: Path, tmp_path: Path) -> Ask:
    """Runs Python in a fresh process with the runtime as `rt`, over the recording driver; returns
    what it printed."""

    def run(major: int, code: str, driver: Path | None = None) -> str:
        begin = f"import ctypes, threading\nrt = ctypes.CDLL({str(ours(major))!r})\n"
        environment = {
            "LD_LIBRARY_PATH": str(driver or recording_driver),
            "RECORD": str(tmp_path / "record"),
        }
        done = subprocess.run(
            [sys.executable, "-c", begin + code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("major", MAJORS)
def test_every_function_of_the_vendors_library_is_there_under_its_version(major: int) -> None:
    vendors = exported(vendor_root(major) / "lib" / f"libcudart.so.{major}")
    simulated = exported(ours(major))
    missing = {name: node for name, node in vendors.items() if simulated.get(name) != node}
    assert len(vendors) > 400
    assert missing == {}


@pytest.mark.parametrize("major", MAJORS)
def test_the_driver_is_asked_for_each_function_by_a_name_and_version_of_its_header(
    ask: Ask, tmp_path: Path, major: int
) -> None:
    ask(major, "rt.cudaFree(None)")
    known = set(
        re.findall(
            r"PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\b",
            (vendor_root(major) / "include/cudaTypedefs.h").read_text(),
        )
    )
    versions = {(name, int(version), bool(twin)) for name, version, twin in known}
    versions |= {(name, 4000, False) for name in ("cuProfilerStart", "cuProfilerStop")}
    asked = [
        (name, int(version), int(flags))
        for name, version, flags in (
            line.split() for line in (tmp_path / "record").read_text().splitlines()
        )
    ]
    assert len(asked) == len(set(asked)) > 150
    assert {flags for _, _, flags in asked} == {0, 2}
    assert [(n, v, f) for n, v, f in asked if (n, v, f == 2) not in versions] == []


@pytest.mark.parametrize("major", MAJORS)
def test_the_per_thread_twin_of_a_function_calls_the_drivers_per_thread_twin(
    ask: Ask, major: int
) -> None:
    calls = (
        "print(rt.cudaStreamQuery(None), rt.cudaStreamQuery_ptsz(None), rt.cudaEventQuery(None))"
    )
    assert ask(major, calls) == "2 600 2\n"


@pytest.mark.parametrize("major", MAJORS)
def test_the_last_error_belongs_to_a_thread_and_is_given_once(ask: Ask, major: int) -> None:
    code = """
rt.cudaStreamQuery(None)
other = []
thread = threading.Thread(target=lambda: other.append(rt.cudaGetLastError()))
thread.start()
thread.join()
print(other, rt.cudaPeekAtLastError(), rt.cudaGetLastError(), rt.cudaGetLastError())
"""
    assert ask(major, code) == "[0] 2 2 0\n"


@pytest.mark.parametrize("major", MAJORS)
def test_without_a_driver_the_version_is_none_and_everything_else_an_insufficient_driver(
    ask: Ask, tmp_path: Path, major: int
) -> None:
    code = """
number = ctypes.c_int(7)
print(rt.cudaDriverGetVersion(ctypes.byref(number)), number.value)
print(rt.cudaGetDeviceCount(ctypes.byref(number)), number.value, rt.cudaFree(None))
"""
    assert ask(major, code, tmp_path) == "0 0\n35 0 35\n"


@pytest.mark.parametrize("major", MAJORS)
def test_an_unsupported_function_says_so_is_named_once_and_is_counted(ask: Ask, major: int) -> None:
    code = """
print(rt.cudaGraphicsUnregisterResource(None), rt.cudaGraphicsUnregisterResource(None), rt.cudaGetLastError())
rt.gpupoolCudartUnsupported.restype = ctypes.c_char_p
calls, counted, i = ctypes.c_ulong(), {}, 0
while name := rt.gpupoolCudartUnsupported(i, ctypes.byref(calls)):
    counted |= {name.decode(): calls.value} if calls.value else {}
    i += 1
print(counted)
"""
    printed = ask(major, code)
    assert "801 801 801\n{'cudaGraphicsUnregisterResource': 2}\n" in printed
    assert printed.count("cudaGraphicsUnregisterResource is not supported") == 1


@pytest.mark.parametrize("major", MAJORS)
def test_errors_have_the_names_of_the_header_and_strangers_are_unknown(
    ask: Ask, major: int
) -> None:
    header = (vendor_root(major) / "include/driver_types.h").read_text()
    names = dict(re.findall(r"\b(cuda(?:Success|Error\w+))\s*=\s*(\d+)", header))
    code = f"""
rt.cudaGetErrorName.restype = rt.cudaGetErrorString.restype = ctypes.c_char_p
for name, number in {names!r}.items():
    assert rt.cudaGetErrorName(int(number)).decode() == name, name
    assert rt.cudaGetErrorString(int(number)), name
print(rt.cudaGetErrorString(2).decode(), rt.cudaGetErrorName(123456).decode(), sep="; ")
"""
    assert len(names) > 100
    assert ask(major, code) == "out of memory; unrecognized error code\n"
