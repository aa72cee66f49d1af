"""What simulated cards of each model are like."""

import pytest

from gpupool.model.catalogue import CATALOGUE
from gpupool.probes.simgpu_cards import (
    compute_context_bytes,
    count_multiprocessors,
    count_threads,
    find_character,
    find_compute_capability,
    find_pci_device_id,
)
from gpupool.probes.simulated import parse_sim


@pytest.mark.parametrize("model", sorted(CATALOGUE))
def test_every_model_can_be_simulated_with_figures_that_fit_together(model: str) -> None:
    (device,) = parse_sim(model)[0].devices
    about = find_character(device)
    assert about.power_idle_watts < about.power_limit_watts
    assert about.link_gb_per_second < about.memory_gb_per_second
    assert about.memory_bus_bits % 32 == 0
    assert find_compute_capability(device) >= (6, 0)
    assert compute_context_bytes(device) % (2 << 20) == 0
    assert 50 << 20 < compute_context_bytes(device) < device.memory_bytes // 16
    assert count_multiprocessors(device) * count_threads(device) >= 20 * 1024


def test_ids_are_those_of_the_catalogue_in_nvmls_order() -> None:
    assert find_pci_device_id(parse_sim("T4")[0].devices[0]) == 0x1EB810DE


def test_a_turing_multiprocessor_holds_half_the_threads_of_a_hopper_one() -> None:
    turing, hopper = (parse_sim(model)[0].devices[0] for model in ("T4", "H100"))
    assert (count_threads(turing), count_threads(hopper)) == (1024, 2048)
