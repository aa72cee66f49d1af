"""The sizes of a VM, its states, and the hole for the BARs of its cards."""

from __future__ import annotations

import pytest

from gpupool.model.job import JobState
from gpupool.model.vm import (
    GIB,
    MIB,
    OVERHEAD_BYTES,
    USUAL_HOLE_BYTES,
    VmSpec,
    VmState,
    find_hole_bytes,
    find_vm_state,
)


def test_a_vm_needs_more_main_memory_than_its_guest_has() -> None:
    assert VmSpec(ram_bytes=GIB).host_bytes == GIB + OVERHEAD_BYTES


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        (VmSpec(), False),
        (VmSpec(ssh_keys=("ssh-ed25519 AAAA",)), True),
        (VmSpec(cloud_init=""), True),
    ],
)
def test_a_seed_is_needed_for_keys_and_for_user_data(spec: VmSpec, needs: bool) -> None:
    assert spec.needs_seed is needs


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_of_a_job_is_a_state_of_its_vm(state: JobState) -> None:
    assert find_vm_state(state, None) in VmState


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (None, VmState.RUNNING),
        ("running", VmState.RUNNING),
        ("paused", VmState.PAUSED),
        ("shutdown", VmState.SHUT_DOWN),
        ("guest-panicked", VmState.FAILED),
        ("a word of a later QEMU", VmState.RUNNING),
    ],
)
def test_the_state_of_a_running_vm_is_its_guests(status: str | None, state: VmState) -> None:
    assert find_vm_state("running", status) is state


def test_what_a_guest_said_last_does_not_outlive_its_job() -> None:
    assert find_vm_state("stopped", "running") is VmState.STOPPED


@pytest.mark.parametrize(
    ("bars", "hole"),
    [
        ((), USUAL_HOLE_BYTES),
        ((16 * MIB, 32 * MIB), USUAL_HOLE_BYTES),
        # An H200: BAR 1 has 256 GiB; its small BARs fit into the room of its alignment.
        ((16 * MIB, 256 * GIB, 32 * MIB), 512 * GIB),
        ((256 * GIB,), 512 * GIB),
        ((16 * MIB, 256 * GIB, 32 * MIB) * 8, 4096 * GIB),
    ],
)
def test_the_hole_is_the_power_of_two_that_holds_the_bars_twice(
    bars: tuple[int, ...], hole: int
) -> None:
    assert find_hole_bytes(bars) == hole
