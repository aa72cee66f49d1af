"""Operations that move a function between its own driver and a VFIO driver.

The way is `driver_override`, `unbind`, `drivers_probe`, and then a look at the `driver` link, since the
kernel reports no failure of a probe.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from gpupool.base.durable import write_durably
from gpupool.mechanisms.pci.drivers import find_driver, is_same_driver
from gpupool.mechanisms.pci.holders import (
    PERSISTENCE_DAEMON,
    find_holders,
    format_holders,
    suggest_end,
)
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools, find_program

#: Seconds between two looks at the holders of a node.
PAUSE_SECONDS = 0.2


def bind_function(tools: OperationTools, address: str, module: str) -> None:
    """Bind a function to a module's driver and to no other."""
    driver = _load_module(tools, module)
    entry = tools.tree.locate(address)
    state = tools.tree.describe(address)
    if state.override != driver:
        tools.writer.write(entry / "driver_override", f"{driver}\n")
    if not is_same_driver(state.driver, driver):
        if state.driver is not None:
            tools.writer.write(entry / "driver/unbind", address)
        tools.writer.write(tools.root / "sys/bus/pci/drivers_probe", address)
    _check_driver(tools, address, driver)


def restore_function(
    tools: OperationTools, address: str, module: str, driver: str | None, override: str | None
) -> None:
    """Put back the driver and the override that a function had before `bind_function`.

    Leaves a function alone that another owner has bound to a third driver meanwhile, and one that
    is gone.
    """
    if not tools.tree.has_function(address):
        return
    entry = tools.tree.locate(address)
    state = tools.tree.describe(address)
    ours = is_same_driver(state.driver, module) or is_same_driver(state.override, module)
    if not ours and state.driver is not None:
        return
    # The override goes after the unbind and before the probe: at each moment the function is
    # recognised as ours, or has no driver.
    if state.driver is not None and not is_same_driver(state.driver, driver):
        # The kernel would wait in this write until the VM closes the device, however long that is.
        holders = find_holders(tools.tree.list_group_nodes(address), tools.root)
        if holders:
            raise OperationFailure(f"{address} is in use by {format_holders(holders)}")
        tools.writer.write(entry / "driver/unbind", address)
        state = tools.tree.describe(address)
    if state.override != override:
        tools.writer.write(entry / "driver_override", f"{override or ''}\n")
    if driver is not None and state.driver is None:
        _probe_own_driver(tools, address, driver)
        _check_driver(tools, address, driver)


def wait_until_idle(tools: OperationTools, nodes: Sequence[str], seconds: float) -> None:
    """Wait until no process has any of the nodes open."""
    paths = [Path(node) for node in nodes]
    looks = max(1, int(seconds / PAUSE_SECONDS))
    for _ in range(looks):
        holders = find_holders(paths, tools.root)
        if not holders:
            return
        tools.pause(PAUSE_SECONDS)
    command = suggest_end(one.name for one in holders)
    raise OperationFailure(
        f"the card is in use by {format_holders(holders)}" + (f"; {command}" if command else "")
    )


def disable_persistence(tools: OperationTools, address: str, record: str) -> None:
    """Make NVIDIA's daemon close a card, and record whether it had it open."""
    if find_program(tools.root, "nvidia-smi") is None:
        return
    path = Path(record)
    if not path.exists():
        query = ["-i", address, "--query-gpu=persistence_mode", "--format=csv,noheader"]
        enabled = tools.run_program("nvidia-smi", query) == "Enabled"
        write_durably(path, json.dumps({"enabled": enabled}).encode(), mode=0o600)
    if json.loads(path.read_text(encoding="utf-8"))["enabled"]:
        tools.run_program("nvidia-smi", ["-i", address, "-pm", "0"])


def restore_persistence(tools: OperationTools, address: str, record: str) -> None:
    """Give a card back to NVIDIA's daemon, if it had it."""
    path = Path(record)
    if path.exists() and json.loads(path.read_text(encoding="utf-8"))["enabled"]:
        tools.run_program("nvidia-smi", ["-i", address, "-pm", "1"])


def explain_use(root: Path, nodes: Sequence[Path]) -> str:
    """Return the processes that use a card, for people; empty where none does.

    NVIDIA's persistence daemon does not count, which the switch makes close the card, and neither
    does this process, which closes NVML for the switch.
    """
    return format_holders(find_holders(nodes, root, (PERSISTENCE_DAEMON,), os.getpid()))


def _load_module(tools: OperationTools, module: str) -> str:
    driver = find_driver(tools.tree, module)
    if driver is None and find_program(tools.root, "modprobe") is not None:
        tools.run_program("modprobe", [module])
        driver = find_driver(tools.tree, module)
    if driver is None:
        raise OperationFailure(f"the kernel has no driver {module}: run modprobe {module}")
    return driver


def _probe_own_driver(tools: OperationTools, address: str, driver: str) -> None:
    tools.writer.write(tools.root / "sys/bus/pci/drivers_probe", address)
    if is_same_driver(tools.tree.describe(address).driver, driver):
        return
    # Another driver for the same hardware came first, or none knows it.
    if tools.tree.describe(address).driver is not None:
        tools.writer.write(tools.tree.locate(address) / "driver/unbind", address)
    if tools.tree.locate_driver(driver).is_dir():
        tools.writer.write(tools.tree.locate_driver(driver) / "bind", address)


def _check_driver(tools: OperationTools, address: str, driver: str) -> None:
    found = tools.tree.describe(address).driver
    if not is_same_driver(found, driver):
        raise OperationFailure(f"{address} is on driver {found}, expected {driver}")
