"""Finds the VFIO driver of a function: `vfio-pci`, or the variant that its hardware needs.

The kernel's modules name the hardware that a variant is for in `modules.alias`.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase

from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.probes.common.sysfs import read_text

#: The driver for hardware that needs no variant.
PLAIN_MODULE = "vfio_pci"
_ALIAS = re.compile(r"alias vfio_pci:(\S+) (\S+)")


def find_module(tree: PciTree, address: str, release: str = "") -> str:
    """Return the module with the best match for a function; `vfio_pci` where no variant matches.

    Args:
        release: of the kernel; the running one by default.
    """
    hardware = (read_text(tree.locate(address) / "modalias") or "").removeprefix("pci:")
    folder = tree.root / "lib/modules" / (release or os.uname().release)
    best = PLAIN_MODULE
    best_score = 0
    for line in (read_text(folder / "modules.alias") or "").splitlines():
        match = _ALIAS.fullmatch(line)
        if match is None or not fnmatchcase(hardware, match.group(1)):
            continue
        # The pattern that leaves least open is meant for exactly this hardware.
        score = len(match.group(1).replace("*", ""))
        if score > best_score:
            best = match.group(2)
            best_score = score
    return best


def is_same_driver(one: str | None, other: str | None) -> bool:
    """Whether two names mean one driver: a module has `_` where its driver may have `-`."""
    if one is None or other is None:
        return one is other
    return one.replace("-", "_") == other.replace("-", "_")


def find_driver(tree: PciTree, module: str) -> str | None:
    """Return the name under which a module's driver is registered; None while it is not loaded."""
    for name in (module, module.replace("_", "-")):
        if tree.locate_driver(name).is_dir():
            return name
    return None


def is_handover_driver(driver: str | None) -> bool:
    """Whether a driver keeps a function away from the host, so that it blocks no hand-over."""
    return driver is not None and ("vfio" in driver or driver == "pci-stub")
