"""The same programs, unchanged, as jobs with a share of a simulated card: the share is all that
they see and get.

One real pool for the file, driven by the command line. No variable is set for the job: the driver's
and the runtime's names are taken by what the pool shows it.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cuda.jobs import CONTEXT, GIB, SHARE, document, neighbour
from tests.cuda.test_alone import CHUNK, PROGRAMS, failures
from tests.e2e.pool_fixture import RealPool
from tests.support import cuda_programs


def test_a_driver_api_program_sees_its_share_and_meets_its_end(
    pool: RealPool, python: Path
) -> None:
    seen = document(pool, python, PROGRAMS / "driver_calls.py")
    assert seen["devices"] == 1
    assert seen["total"] == seen["total_property"] == 8 * GIB
    assert 8 * GIB - CONTEXT < seen["free"] < 8 * GIB
    assert seen["free"] - CHUNK < seen["fill"]["bytes"] <= seen["free"]
    assert seen["absurd"] == seen["fill"]["error"] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert seen["free_after"] == seen["free"]
    assert seen["round_trip"] is seen["physical"] is True


def test_numba_under_a_share_is_refused_beyond_it_and_goes_on(pool: RealPool, python: Path) -> None:
    seen = document(pool, python, PROGRAMS / "numba_steps.py")
    assert seen["total"] == 8 * GIB
    assert seen["arrays"] is seen["launches"]["ptx"] is True
    assert "CUDA_ERROR_OUT_OF_MEMORY" in seen["fill"]["error"]
    assert 8 * GIB - CONTEXT < seen["fill"]["bytes"] < 8 * GIB
    assert seen["again"] == CHUNK


def test_a_program_by_nvcc_does_under_a_share_all_that_it_does_alone(
    pool: RealPool, features: Path
) -> None:
    steps = document(pool, features)
    assert len(steps) == 13
    assert failures(steps) == {}


def test_a_program_by_nvcc_fills_its_share_and_no_more(pool: RealPool, features: Path) -> None:
    seen = document(pool, features, "fill")
    assert seen["total"] == seen["property"] == 8 * GIB
    assert seen["error"] == "cudaErrorMemoryAllocation"
    assert seen["failures"] == ""
    assert seen["free"] - CHUNK < seen["got"] <= seen["free"] < 8 * GIB


def test_a_neighbour_that_holds_its_own_share_takes_nothing_from_ours(
    pool: RealPool, features: Path
) -> None:
    alone = document(pool, features, "fill")["got"]
    with neighbour(pool, features, 20 * GIB, "--gpu", "0.5", "--memory", "24GiB"):
        assert document(pool, features, "fill")["got"] == alone


def test_a_whole_card_is_the_card_itself(pool: RealPool, features: Path) -> None:
    seen = document(pool, features, "fill", claim=("--gpu", "1"))
    assert seen["total"] > 40 * GIB
    assert seen["failures"] == ""


CALL_MAIN = """
import ctypes, sys
words = (ctypes.c_char_p * 2)(b"features", sys.argv[2].encode())
sys.exit(ctypes.CDLL(sys.argv[1]).main(2, words))
"""


def test_a_library_that_brings_the_vendors_runtime_runs_with_ours_preloaded_by_name(
    pool: RealPool,
) -> None:
    """As PyTorch's do, by DT_RPATH; the name is found in no directory but by the job's own loader
    cache."""
    rpath = f"--disable-new-dtags,-rpath,{cuda_programs.toolkit() / 'lib'}"
    library = cuda_programs.compiled(
        "features.cu", "-shared", "-Xcompiler", "-fPIC", "-Xlinker", rpath
    )
    command = (str(cuda_programs.python()), "-c", CALL_MAIN, str(library), "fill")
    alone = pool.run("run", *SHARE, "--", *command)
    assert alone.returncode == 1
    assert json.loads(alone.stdout)["total"] == 0
    seen = document(pool, "env", "LD_PRELOAD=libcudart.so.13", *command)
    assert seen["total"] == 8 * GIB
    assert seen["error"] == "cudaErrorMemoryAllocation"
