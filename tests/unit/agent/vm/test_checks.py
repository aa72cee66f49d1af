"""What a node refuses of a VM, with the numbers."""

from __future__ import annotations

import pytest

from gpupool.agent.vm.checks import check_hand_over, check_host_size
from gpupool.base.errors import VmRejection
from gpupool.mechanisms.contract import PciFunction
from gpupool.model.vm import GIB, VmSpec
from tests.unit.agent.vm.test_host import make_prepared, make_view


def test_a_vm_as_large_as_its_host_passes() -> None:
    check_host_size(VmSpec(cpus=4, ram_bytes=8 * GIB), 4, 9 * GIB)
    check_host_size(VmSpec(cpus=4, ram_bytes=8 * GIB), 4, 0)  # an unknown size limits nothing


def test_too_many_processors_are_refused_with_both_numbers() -> None:
    with pytest.raises(VmRejection, match="has 8 processors; this host has 4") as caught:
        check_host_size(VmSpec(cpus=8), 4, 64 * GIB)
    assert caught.value.hint == "--cpus 4 is the most here"


def test_too_much_memory_counts_what_qemu_needs() -> None:
    with pytest.raises(
        VmRejection, match=r"8192 MiB .* 512 MiB more; this host has 8192"
    ) as caught:
        check_host_size(VmSpec(cpus=1, ram_bytes=8 * GIB), 4, 8 * GIB)
    assert caught.value.hint == "--ram 7680MiB is the most here"


def test_a_real_card_that_no_guest_would_see_is_refused() -> None:
    with pytest.raises(VmRejection, match="was not taken from its driver"):
        check_hand_over(make_view(simulated=False), make_prepared())


def test_a_real_card_that_was_taken_from_its_driver_passes() -> None:
    function = PciFunction("0000:01:00.0", 7, "vfio-pci")
    check_hand_over(make_view(simulated=False), make_prepared(pci=(function,)))
    check_hand_over(make_view(simulated=False), make_prepared(mediated_devices=("uuid",)))
    check_hand_over(make_view(simulated=True), make_prepared())
