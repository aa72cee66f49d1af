"""Every symbol is classified, and what is not, or not consistently, stops the build."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gpupool_native
from tests.unit.native.fence_build import (
    GEN,
    LIBRARIES,
    SONAMES,
    SPEC,
    Headers,
    StandIn,
    build_bare,
    build_dummy,
    shared,
    unwritten,
)

CHILD = Path(__file__).with_name("fence_child.py")
SIDES = ("driver", "nvml")
GONE = (
    "cuMemAlloc_v2",
    "cuLaunchKernel",
    "cuCtxGetId",
)  # what the older driver of these tests lacks
NEW = ("cuMemAlloc_v9", "cuFutureThing")  # what the newer one has
KNOWN = ("cuEGLApiInit", "cuMemGetAttribute")  # what drivers have that no header declares


def run(headers: Headers, side: str, table: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-B",
        str(GEN / "generate.py"),
        side,
        "--symbols",
        str(headers.folder / "symbols.json"),
    ]
    return subprocess.run(
        [*command, "--table", str(table), "--into", str(into)], text=True, capture_output=True
    )


@pytest.mark.parametrize("side", SIDES)
def test_the_table_names_every_symbol_of_the_headers_and_no_other(
    side: str, headers: Headers
) -> None:
    assert [row.symbol.name for row in headers.rows(side)] == sorted(
        headers.lists[LIBRARIES[side]].by_name
    )


def without(name: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [line for line in lines if not line.startswith(f"{name}\t")]


def with_line(line: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [*lines, line]


def changed(
    name: str, klass: str, handler: str, note: str = ""
) -> Callable[[list[str]], list[str]]:
    return lambda lines: [*without(name)(lines), f"{name}\t{klass}\t{handler}\t{note}"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (without("cuMemAlloc_v2"), "cuMemAlloc_v2: the headers declare it, the table has no row"),
        (with_line("cuMemAllocc\taccount\town\t"), "cuMemAllocc: no header declares it"),
        (with_line("cuInit\tpass\t-\t"), "cuInit: has more than one row"),
        (with_line("cuInit pass"), "has 1 cells, not 4"),
        (changed("cuInit", "pass", "undeclared"), "cuInit: a header declares it by now"),
        (
            changed("cuMemGetAttribute", "account", "undeclared"),
            "cuMemGetAttribute: handler 'undeclared' does not fit",
        ),
        (changed("cuInit", "ignore", "-"), "cuInit: class 'ignore' is none of pass, wait, account"),
        (changed("cuInit", "pass", "own"), "cuInit: handler 'own' does not fit class pass"),
        (changed("cuInit", "account", "-"), "cuInit: handler '-' does not fit class account"),
        (
            changed("cuInit", "account", "launch"),
            "cuInit: handler 'launch' does not fit class account",
        ),
        (
            changed("cuInit", "deny", "deny:0", "so"),
            "cuInit: handler 'deny:0' does not fit class deny",
        ),
        (
            changed("cuInit", "deny", "deny:CUDA_ERROR_NOT_PERMITTED"),
            "cuInit: a refusal needs a note",
        ),
        (changed("cuInit", "throttle", "copy"), "cuInit: no rule says how much work"),
        (
            changed("cuMemFree_v2", "account", "own:cuMemAllocAsync"),
            "cuMemFree_v2: is not of the shape of cuMemAllocAsync",
        ),
        (
            changed("cuGraphLaunch_ptsz", "pass", "-"),
            "cuGraphLaunch_ptsz: is pass -, but its twin is throttle graph",
        ),
    ],
)
def test_a_faulty_table_stops_the_build(
    change: Callable[[list[str]], list[str]], fault: str, headers: Headers, tmp_path: Path
) -> None:
    table = tmp_path / "driver.tsv"
    lines = (SPEC / "driver.tsv").read_text().splitlines()
    assert change(lines) != lines
    table.write_text("\n".join(change(lines)) + "\n")
    done = run(headers, "driver", table, tmp_path / "made")
    assert (done.returncode, fault in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "made").exists()


def test_all_faults_are_told_at_once(headers: Headers, tmp_path: Path) -> None:
    table = tmp_path / "nvml.tsv"
    lines = (SPEC / "nvml.tsv").read_text().splitlines()
    table.write_text("\n".join([*lines[:1], *lines[3:], "nvmlNothing\tpass\t-\t"]) + "\n")
    done = run(headers, "nvml", table, tmp_path)
    assert len(done.stderr.splitlines()) == 3


@pytest.mark.parametrize("side", SIDES)
def test_every_form_of_a_handled_function_is_handled(side: str, headers: Headers) -> None:
    """A program of an older CUDA, or a newer one, does not get past the fence by another form of a
    name."""
    classes: dict[str, set[str]] = {}
    for row in headers.rows(side):
        classes.setdefault(row.symbol.base, set()).add(row.klass)
    assert {base: found for base, found in classes.items() if len(found) > 1} == {}


def test_what_the_vendor_runtime_checks_itself_against_passes(headers: Headers) -> None:
    """The driver's version, the cards' identities, number and order, and its tables: never other
    than the driver's."""
    checked = {
        "cuDriverGetVersion",
        "cuGetExportTable",
        "cuDeviceGet",
        "cuDeviceGetCount",
        "cuDeviceGetUuid",
    }
    checked |= {
        "cuDeviceGetUuid_v2",
        "cuDeviceGetPCIBusId",
        "cuDeviceGetByPCIBusId",
        "cuDeviceGetAttribute",
    }
    assert {
        row.symbol.name
        for row in headers.rows("driver")
        if row.symbol.name in checked and not row.handled
    } == checked


@pytest.mark.parametrize("side", SIDES)
def test_generating_twice_gives_the_same_and_touches_nothing(
    side: str, headers: Headers, tmp_path: Path
) -> None:
    assert run(headers, side, SPEC / f"{side}.tsv", tmp_path).returncode == 0
    before = {path: (path.read_text(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    assert run(headers, side, SPEC / f"{side}.tsv", tmp_path).returncode == 0
    assert {
        path: (path.read_text(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()
    } == before


def build(headers: Headers, side: str, folder: Path, **driver: tuple[str, ...]) -> StandIn:
    dummy = build_dummy(folder / "real", headers.lists[LIBRARIES[side]], SONAMES[side], **driver)
    return StandIn(side, build_bare(folder / "bare", headers, side, dummy), dummy)


@pytest.fixture(scope="session")
def bare(headers: Headers, tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """A stand-in of generated code alone before a driver that has every symbol."""
    folder = shared(
        tmp_path_factory, "fence-bare", lambda into: build(headers, "driver", into) and None
    )
    return StandIn(
        "driver", folder / "bare" / SONAMES["driver"], folder / "real" / "libcuda.so.1.real"
    )


@pytest.fixture(scope="session")
def other(headers: Headers, tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """The same before a driver that lacks some symbols and has some that no header knows."""
    folder = shared(
        tmp_path_factory,
        "fence-other",
        lambda into: build(headers, "driver", into, without=GONE, extra=NEW + KNOWN) and None,
    )
    return StandIn(
        "driver", folder / "bare" / SONAMES["driver"], folder / "real" / "libcuda.so.1.real"
    )


@pytest.fixture(scope="session")
def apart(headers: Headers, tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """The same before a driver whose look-ups give other addresses than the names have."""
    folder = shared(
        tmp_path_factory,
        "fence-apart",
        lambda into: build(headers, "driver", into, flags=("-DDUMMY_APART",)) and None,
    )
    return StandIn(
        "driver", folder / "bare" / SONAMES["driver"], folder / "real" / "libcuda.so.1.real"
    )


def ask(stand_in: StandIn, *command: str) -> Any:
    """What a child process finds out of the stand-in."""
    child = [
        sys.executable,
        "-B",
        str(CHILD),
        str(stand_in.library),
        str(stand_in.driver),
        *command,
    ]
    done = subprocess.run(child, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_handled_symbol_reaches_the_driver_under_its_own_name(
    bare: StandIn, headers: Headers
) -> None:
    """Old forms and twins above all: each has a function of its own in the driver."""
    rows = [row for row in headers.rows("driver") if row.klass not in ("pass", "deny")]
    names = [row.symbol.name for row in rows if row.symbol.base != "cuGetProcAddress"]
    assert len(names) > 150
    assert ask(bare, "reach", *names) == {name: [0, name] for name in names}


def test_a_refused_symbol_does_not_reach_the_driver(headers: Headers, tmp_path: Path) -> None:
    nvml = build(headers, "nvml", tmp_path)
    refused = [row.symbol.name for row in headers.rows("nvml") if row.klass == "deny"]
    no_permission = 4
    assert ask(nvml, "reach", *refused) == {name: [no_permission, ""] for name in refused}
    assert (
        ask(nvml, "reach", "nvmlDeviceGetMemoryInfo")["nvmlDeviceGetMemoryInfo"][1]
        == "nvmlDeviceGetMemoryInfo"
    )


def test_an_older_driver_answers_not_found_for_what_it_lacks(
    other: StandIn, headers: Headers
) -> None:
    not_found = 500
    handled = ["cuMemAlloc_v2", "cuLaunchKernel", "cuCtxGetId"]
    assert ask(other, "reach", *handled) == {name: [not_found, ""] for name in handled}
    undeclared = [row for row in headers.all_rows("driver") if not row.symbol.toolkits]
    assert ask(other, "lacking") == len(GONE) + len(undeclared) - len(KNOWN)
    assert ask(other, "exports", *GONE) == handled


def test_a_newer_driver_is_asked_what_it_has_that_nobody_classified(other: StandIn) -> None:
    assert sorted(ask(other, "unclassified")) == sorted(NEW)


@pytest.mark.parametrize(
    ("base", "version", "reached", "counted"),
    [
        ("cuFutureThing", 13050, "cuFutureThing", 1),
        ("cuMemAlloc", 2000, "cuMemAlloc", 0),
        ("cuCtxGetCurrent", 4000, "cuCtxGetCurrent", 0),
    ],
)
def test_a_look_up_of_what_nobody_classified_passes_and_is_counted(
    base: str, version: int, reached: str, counted: int, other: StandIn
) -> None:
    assert ask(other, "lookup", base, str(version)) == [reached, counted]


@pytest.mark.parametrize(
    ("base", "version", "reached"),
    [
        ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
        ("cuLaunchKernel", 4000, "cuLaunchKernel"),
        ("cuCtxGetCurrent", 4000, "cuCtxGetCurrent"),
        ("cuDeviceGetCount", 2000, "apart_cuDeviceGetCount"),
    ],
)
def test_a_driver_may_look_up_other_addresses_than_it_exports(
    base: str, version: int, reached: str, apart: StandIn
) -> None:
    """Ours is given for what we handle, and nothing is counted as unknown for what passes."""
    assert ask(apart, "lookup", base, str(version)) == [reached, 0]


@pytest.mark.parametrize("side", SIDES)
def test_no_handler_of_the_shipped_libraries_is_one_that_nobody_wrote(
    side: str, bare: StandIn
) -> None:
    """The weak handlers, which only pass through, lie in a section of their own, which the bare
    stand-in does have."""
    section = b"fence_unwritten"
    assert section in bare.library.read_bytes()
    assert section not in (gpupool_native.fence_dir() / SONAMES[side]).read_bytes()


KERNEL, GRAPH, COPY, MEMSET = range(4)
ANY, TO_DEVICE, TO_HOST, ON_DEVICE, PEER = range(5)
LEGACY, PER_THREAD, STREAM, FUNCTION = 1, 2, 0x5000, 0x7000
WORK = {  # a call: kind, direction of a copy, whether it waits, stream, key, units
    f"cuLaunchKernel {FUNCTION} 70000 65535 4 32 1 1 0 {STREAM}": (
        KERNEL,
        0,
        0,
        STREAM,
        FUNCTION,
        70000 * 65535 * 4,
    ),
    f"cuLaunchKernel {FUNCTION} 2 3 4": (KERNEL, 0, 0, LEGACY, FUNCTION, 24),
    f"cuLaunchKernel_ptsz {FUNCTION} 2 3 4": (KERNEL, 0, 0, PER_THREAD, FUNCTION, 24),
    f"cuLaunchKernel_ptsz {FUNCTION} 2 3 4 1 1 1 0 {STREAM}": (KERNEL, 0, 0, STREAM, FUNCTION, 24),
    "cuLaunchKernelEx 0": (KERNEL, 0, 0, LEGACY, 0, 0),
    f"cuLaunch {FUNCTION}": (KERNEL, 0, 0, LEGACY, FUNCTION, 1),
    f"cuLaunchGridAsync {FUNCTION} 6 7 {STREAM}": (KERNEL, 0, 0, STREAM, FUNCTION, 42),
    "cuLaunchCooperativeKernelMultiDevice 0 3": (KERNEL, 0, 0, LEGACY, 0, 0),
    f"cuGraphLaunch 0x9000 {STREAM}": (GRAPH, 0, 0, STREAM, 0x9000, 1),
    "cuGraphLaunch_ptsz 0x9000 0": (GRAPH, 0, 0, PER_THREAD, 0x9000, 1),
    "cuMemcpyHtoD_v2 0 0 4096": (COPY, TO_DEVICE, 1, LEGACY, 0, 4096),
    "cuMemcpyHtoD_v2_ptds 0 0 4096": (COPY, TO_DEVICE, 1, PER_THREAD, 0, 4096),
    f"cuMemcpyDtoHAsync_v2 0 0 {1 << 33} {STREAM}": (COPY, TO_HOST, 0, STREAM, 0, 1 << 33),
    "cuMemcpyAtoD_v2 0 0 0 17": (COPY, ON_DEVICE, 1, LEGACY, 0, 17),
    f"cuMemcpyPeerAsync 0 0 0 0 5 {STREAM}": (COPY, PEER, 0, STREAM, 0, 5),
    f"cuMemcpyAsync 0 0 5 {STREAM}": (COPY, ANY, 0, STREAM, 0, 5),
    "cuMemcpy2D_v2 0": (COPY, ANY, 1, LEGACY, 0, 0),
    "cuMemcpyBatchAsync_v2_ptsz 0 0 0 9": (COPY, ANY, 0, PER_THREAD, 0, 0),
    f"cuMemPrefetchAsync 0 64 0 {STREAM}": (COPY, ANY, 0, STREAM, 0, 64),
    "cuMemsetD8_v2 0 7 10": (MEMSET, 0, 0, LEGACY, 0, 10),
    f"cuMemsetD32Async 0 7 {1 << 31} {STREAM}": (MEMSET, 0, 0, STREAM, 0, 1 << 33),
    "cuMemsetD2D16_v2_ptds 0 100 7 10 3": (MEMSET, 0, 0, PER_THREAD, 0, 60),
}


def test_the_throttle_is_told_what_each_call_is(bare: StandIn) -> None:
    """Null pointers where structures belong included: what is wrong with them the driver says."""
    told = ask(bare, "work", *WORK)
    assert {call: tuple(said) for call, said in zip(WORK, told, strict=True)} == {
        call: (*expected, 1) for call, expected in WORK.items()
    }


def test_handlers_that_nobody_wrote_are_listed(bare: StandIn, headers: Headers) -> None:
    """In the bare stand-in all but the look-ups, and what its two files bring."""
    rows = headers.rows("driver")
    own = {
        row.symbol.name
        for row in rows
        if row.handler == "own" and row.symbol.base != "cuGetProcAddress"
    }
    assert set(unwritten.unwritten("nm", bare.library)) == own | {
        f"fence_on_{row.stem}" for row in rows if row.stem
    }
