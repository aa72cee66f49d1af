"""Where a server can be killed on purpose: only in a test, at one step, for one subject."""

from __future__ import annotations

import os
import signal

import pytest

from gpupool.base.errors import BadOption
from gpupool.store.faults import no_fault, read_fault, read_sync

ALLOWED = {"GPUPOOL_FAULTS_ALLOWED": "1"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        ALLOWED,
        {"GPUPOOL_STORE_FAULT": "before-commit:job.placed"},
        {"GPUPOOL_STORE_FAULT": "nonsense", "GPUPOOL_FAULTS_ALLOWED": "yes"},
    ],
)
def test_read_fault_outside_a_test_is_no_fault(environ: dict[str, str]) -> None:
    assert read_fault(environ) is no_fault


@pytest.mark.parametrize("wanted", ["before-commit", "before-commit:", "later:job.placed"])
def test_read_fault_of_an_unknown_step_is_refused(wanted: str) -> None:
    with pytest.raises(BadOption, match="is no step of a write"):
        read_fault({**ALLOWED, "GPUPOOL_STORE_FAULT": wanted})


def test_a_fault_kills_at_its_step_and_for_its_subject_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed = list[tuple[int, int]]()
    monkeypatch.setattr(os, "kill", lambda *words: killed.append(words))
    fault = read_fault({**ALLOWED, "GPUPOOL_STORE_FAULT": "after-commit:job.placed"})
    fault("before-commit", lambda: frozenset({"job.placed"}))
    fault("after-commit", lambda: frozenset({"job.ended"}))
    assert killed == []
    fault("after-commit", lambda: frozenset({"job.ended", "job.placed"}))
    assert killed == [(os.getpid(), signal.SIGKILL)]


def test_read_sync_is_group_but_for_a_bench_that_compares() -> None:
    assert read_sync({"GPUPOOL_STORE_SYNC": "none"}) == "group"
    assert read_sync(ALLOWED) == "group"
    assert read_sync({**ALLOWED, "GPUPOOL_STORE_SYNC": "each"}) == "each"
    with pytest.raises(BadOption, match="'often' is not known") as refused:
        read_sync({**ALLOWED, "GPUPOOL_STORE_SYNC": "often"})
    assert refused.value.hint == "group, each, none"
