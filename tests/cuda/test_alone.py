"""Programs of others, unchanged, on simulated cards: what they see, move, measure and are refused.

Simulated kernels do not compute, so nothing here looks at a kernel's results.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

from gpupool_native import simgpu_dir
from tests.cuda.conftest import Cards
from tests.support import cuda_programs

PROGRAMS = cuda_programs.SOURCES
MIB = 1 << 20
CHUNK = 64 * MIB


def failures(steps: list[dict[str, str]]) -> dict[str, str]:
    return {step["step"]: step["failures"] for step in steps if step["failures"]}


def test_a_driver_api_program_by_cuda_bindings_sees_the_cards_and_fills_one(
    cards: Cards, python: Path
) -> None:
    seen = cards.json([python, PROGRAMS / "driver_calls.py"])
    with cards.look() as machine:
        card = machine.cards[0]
    assert seen["devices"] == 2
    assert seen["name"] == card.name
    assert seen["uuid"] == card.uuid.removeprefix("GPU-").replace("-", "")
    assert seen["total"] == seen["total_property"] <= card.memory_bytes
    assert seen["round_trip"] is seen["physical"] is True
    assert 0 < seen["launches"]["milliseconds"] < 10_000
    assert seen["launches"]["missing"] == "CUDA_ERROR_NOT_FOUND"
    assert seen["absurd"] == seen["fill"]["error"] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert seen["free"] - CHUNK < seen["fill"]["bytes"] <= seen["free"]
    assert seen["free_after"] == seen["free"]


def test_numba_compiles_loads_launches_and_meets_the_end_of_memory(
    cards: Cards, python: Path
) -> None:
    seen = cards.json([python, PROGRAMS / "numba_steps.py"])
    assert seen["arrays"] is True
    assert seen["launches"]["ptx"] is True
    assert 0 < seen["launches"]["milliseconds"] < 10_000
    assert "CUDA_ERROR_OUT_OF_MEMORY" in seen["fill"]["error"]
    assert seen["free"] * 0.98 < seen["fill"]["bytes"] + CHUNK <= seen["total"] + CHUNK
    assert seen["again"] == CHUNK


def test_a_program_by_nvcc_does_everything_that_is_real_on_a_simulated_card(
    cards: Cards, features: Path
) -> None:
    steps = cards.json([features])
    assert len(steps) == 13
    assert failures(steps) == {}


def test_a_program_compiled_for_a_default_stream_of_each_thread_does_so_too(cards: Cards) -> None:
    steps = cards.json([cuda_programs.compiled("features.cu", "-default-stream", "per-thread")])
    assert failures(steps) == {}


def test_a_program_linked_with_our_archive_in_place_of_the_vendors_does_so_too(
    cards: Cards,
) -> None:
    archive = str(simgpu_dir() / "libcudart_static.a")
    relinked = cuda_programs.compiled("features.cu", archive, "-ldl", "-lpthread", runtime="none")
    listing = subprocess.run(["ldd", relinked], capture_output=True, text=True, check=True).stdout
    assert "cudart" not in listing
    assert failures(cards.json([relinked])) == {}


def test_the_vendors_own_runtime_stops_at_its_self_test(cards: Cards) -> None:
    """We do not answer the question whether this is the vendor's driver, and it goes no further."""
    done = cards.run([cuda_programs.compiled("features.cu", runtime="static"), "fill"])
    assert done.returncode == 1
    seen = json.loads(done.stdout)
    assert seen["error"] in ("cudaErrorSoftwareValidityNotEstablished", "cudaErrorNotSupported")
    assert seen["got"] == seen["total"] == 0


@pytest.mark.parametrize("ordinal", ["0", "1"])
def test_a_hidden_card_is_hidden_from_the_runtime_too(
    cards: Cards, features: Path, ordinal: str
) -> None:
    with cards.look() as machine:
        shown = machine.cards[int(ordinal)]
    holder = cards.start(
        ["env", f"CUDA_VISIBLE_DEVICES={ordinal}", str(features), "hold", str(1000 * MIB)]
    )
    try:
        assert holder.stdout is not None
        pid = json.loads(holder.stdout.readline())["pid"]
        with cards.look() as machine:
            uses = {
                card.uuid: [use.pid for use in machine.list_processes(card.uuid)]
                for card in machine.cards
            }
    finally:
        holder.communicate(timeout=30)
    assert uses[shown.uuid] == [pid]
    assert sum(map(len, uses.values())) == 1


@pytest.fixture(scope="module")
def host_calls(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """One C program, compiled against the headers and linked to the vendor's library of each
    version."""
    built = {}
    for major, folder in ((12, "cuda_runtime"), (13, "cu13")):
        root = vendor(folder)
        built[major] = tmp_path_factory.mktemp("host") / f"host_calls{major}"
        include = [f"-I{root / 'include'}", "-idirafter", str(vendor("cu13") / "include")]
        library = str(root / "lib" / f"libcudart.so.{major}")
        command = [
            "cc",
            "-Wall",
            *include,
            "-o",
            str(built[major]),
            str(PROGRAMS / "host_calls.c"),
            library,
        ]
        subprocess.run(command, check=True)
    return built


def vendor(folder: str) -> Path:
    found = importlib.util.find_spec("nvidia")
    assert found is not None
    return next(
        Path(p) / folder
        for p in found.submodule_search_locations or ()
        if (Path(p) / folder).exists()
    )


def test_the_runtimes_12_and_13_say_the_same_of_a_card_each_in_its_own_layout(
    cards: Cards, host_calls: dict[int, Path]
) -> None:
    seen = {major: cards.json([program]) for major, program in host_calls.items()}
    assert (seen[12].pop("runtime") // 1000, seen[13].pop("runtime") // 1000) == (12, 13)
    assert seen[12] == seen[13]
    with cards.look() as machine:
        card = machine.cards[1]
    assert seen[13]["name"] == card.name
    assert seen[13]["uuid"] == card.uuid.removeprefix("GPU-").replace("-", "")
    assert seen[13]["warp"] == 32
    assert seen[13]["threads"] == [1024, 1024, 64]
    assert (seen[13]["capturing"], seen[13]["edges"]) == (1, 1)
    assert seen[13]["moved"] is seen[13]["timed"] is True
