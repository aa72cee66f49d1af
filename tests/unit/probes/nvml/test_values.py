"""Values of NVML as those of the model."""

import pytest

from gpupool.probes.nvml.values import (
    find_larger,
    format_cuda,
    format_pci_id,
    name_architecture,
    read_first_flag,
)


@pytest.mark.parametrize(
    ("one", "other", "larger"), [(None, None, None), (None, 5, 5), (7, None, 7), (3, 9, 9)]
)
def test_larger_of_two_is_found_where_either_is_unknown(
    one: int | None, other: int | None, larger: int | None
) -> None:
    assert find_larger(one, other) == larger


@pytest.mark.parametrize(
    ("number", "name"),
    [(None, None), (1, None), (2, "kepler"), (9, "hopper"), (10, "blackwell"), (11, None)],
)
def test_architecture_outside_the_list_is_unknown(number: int | None, name: str | None) -> None:
    assert name_architecture(number) == name


def test_cuda_version_is_split_into_major_and_minor() -> None:
    assert [format_cuda(number) for number in (12040, 13000, None)] == ["12.4", "13.0", None]


def test_pci_id_has_vendor_before_device() -> None:
    assert format_pci_id(0x233510DE) == "10de:2335"


def test_flag_is_that_of_the_current_mode_and_not_of_the_pending_one() -> None:
    assert [read_first_flag(modes) for modes in ((1, 0), (0, 1), None)] == [True, False, None]
