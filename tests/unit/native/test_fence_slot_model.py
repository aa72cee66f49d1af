"""The slot protocol in every interleaving: fence_slot_model.c, which runs the shipped ledger.c and
process_id.c.

All of it, also what takes longer:  .venv/bin/python -m pytest -n 0 -m '' tests/unit/native/test_fence_slot_model.py
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from tests.unit.native.fence_share import INCLUDE, PROCESS_ID, SRC
from tests.unit.native.front_pool import ROOT

MODEL = Path(__file__).with_name("fence_slot_model.c")
FAST = (
    "two-reapers",
    "reaper-dies",
    "dies-anywhere-two-reapers",
    "exec",
    "exec-beside-a-tenant",
    "arbiter-and-reaper",
)
LONG = ("dies-anywhere", "race-at-the-limit", "two-namespaces", "same-pid-in-two-namespaces")
MUTANTS = {
    "no mark of who clears": (
        "reaper == FENCE_OWNER_REAPING ? reaper : reaper | FENCE_OWNER_REAPER",
        "reaper",
    ),
    "not added before it is judged": (
        "uint64_t before = atomic_fetch_add(",
        "uint64_t before = atomic_load(",
    ),
}

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the model switches stacks of x86-64"
)


def build(folder: Path, ledger: str) -> Path:
    (folder / "process").mkdir(parents=True, exist_ok=True)
    (folder / "process/ledger.c").write_text(ledger)
    defines = ["-D_GNU_SOURCE", "-DFENCE_MAX_DEVICES=1u", "-DFENCE_MAX_SLOTS=2u"]
    includes = [f"-I{path}" for path in (folder, SRC, SRC / "process", INCLUDE, ROOT / "native")]
    options = ["-std=gnu11", "-O1", "-w", "-fno-stack-protector"]
    subprocess.run(
        ["cc", *options, *defines, *includes, "-o", folder / "model", MODEL, PROCESS_ID[1]],
        check=True,
    )
    return folder / "model"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("model"), (SRC / "process/ledger.c").read_text())


def explore(model: Path, *scenarios: str) -> str:
    return subprocess.run([model, *scenarios], capture_output=True, text=True, timeout=600).stdout


@pytest.mark.parametrize(
    "scenario", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)]
)
def test_no_interleaving_loses_a_slot_or_grants_more_than_the_limit(
    model: Path, scenario: str
) -> None:
    name, _, states, _, ends = explore(model, scenario).split()
    assert name == scenario
    assert int(states) > 5000
    assert int(ends) > 0


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_model_finds_a_protocol_that_is_wrong(tmp_path: Path, mutant: str) -> None:
    shipped = (SRC / "process/ledger.c").read_text()
    old, new = MUTANTS[mutant]
    assert old in shipped
    if mutant == "not added before it is judged":
        shipped = shipped.replace(
            "device].pending_bytes, bytes);\n    LEDGER_STEP(9)",
            "device].pending_bytes);\n    LEDGER_STEP(9)",
        )
    assert "FAULT" in explore(build(tmp_path, shipped.replace(old, new)), "two-reapers")
