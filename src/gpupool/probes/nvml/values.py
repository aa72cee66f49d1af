"""Converts values of NVML into those of the model."""

from __future__ import annotations

from typing import Any

_ARCHITECTURES = (
    "kepler",
    "maxwell",
    "pascal",
    "volta",
    "turing",
    "ampere",
    "ada",
    "hopper",
    "blackwell",
)


def find_larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else int(one)
    return max(int(one), int(other))


def format_pci_id(number: int) -> str:
    """Write a PCI id that NVML packs into one number: 0x233510de is `10de:2335`."""
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def format_cuda(number: int | None) -> str | None:
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def name_architecture(number: int | None) -> str | None:
    # NVML counts architectures from Kepler, which is 2 (NVML_DEVICE_ARCH_KEPLER).
    known = number is not None and 0 <= number - 2 < len(_ARCHITECTURES)
    return _ARCHITECTURES[number - 2] if known and number is not None else None


def read_first_flag(modes: Any) -> bool | None:
    return None if modes is None else modes[0] == 1
