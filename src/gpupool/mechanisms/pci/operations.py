"""Runs operations that a plan lists as data, in order, each checked by reading back.

`python -m gpupool.mechanisms.pci.operations ROOT PLAN` is the process of a slow step. It may be killed at
any line and run again: every operation looks first and changes only what is not yet as wanted. A plan
that is gone was withdrawn: then nothing runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpupool.mechanisms.pci import (
    binding,
    fabric,
    partition_modes,
    virtual_functions,
    virtual_gpus,
)
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools

#: One operation as data: `verb` and the arguments of its function.
Operation = Mapping[str, Any]

#: By verb. The names are in notes on disk: they may be added to, and never change their meaning.
VERBS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {
        "activate-partition": fabric.activate_partition,
        "bind": binding.bind_function,
        "clear-function-type": virtual_gpus.clear_function_type,
        "create-functions": virtual_functions.create_functions,
        "create-mediated-device": virtual_gpus.create_mediated_device,
        "deactivate-partition": fabric.deactivate_partition,
        "disable-functions": virtual_gpus.disable_functions,
        "disable-persistence": binding.disable_persistence,
        "enable-functions": virtual_gpus.enable_functions,
        "remove-functions": virtual_functions.remove_functions,
        "remove-mediated-device": virtual_gpus.remove_mediated_device,
        "restore": binding.restore_function,
        "restore-attribute": virtual_functions.restore_attribute,
        "restore-persistence": binding.restore_persistence,
        "set-attribute": virtual_functions.set_attribute,
        "set-compute-partition": partition_modes.set_compute_partition,
        "set-function-type": virtual_gpus.set_function_type,
        "set-mixed-sizes": virtual_gpus.set_mixed_sizes,
        "wait-until-idle": binding.wait_until_idle,
    }
)


def run_operations(tools: OperationTools, operations: Sequence[Operation]) -> None:
    """Run operations in order. Idempotent; may block for ever in the kernel.

    Raises:
        OperationFailure: one had no effect; those before it have theirs.
        OSError: the kernel refused a write.
    """
    for operation in operations:
        arguments = {name: value for name, value in operation.items() if name != "verb"}
        VERBS[operation["verb"]](tools, **arguments)


def describe_operation(operation: Operation) -> str:
    """Return an operation for people: `bind 0000:01:00.0 vfio_pci`."""
    values = [str(value) for name, value in operation.items() if name not in ("verb", "record")]
    return " ".join((str(operation["verb"]), *values))


def main(
    arguments: Sequence[str],
    tools: OperationTools | None = None,
    say: Callable[[str], object] = print,
) -> int:
    """Run the plan in a file; 0 when each operation has its effect, 1 with the reason printed."""
    root, plan = arguments
    try:
        operations = json.loads(Path(plan).read_text(encoding="utf-8"))
    except FileNotFoundError:
        say("the plan was withdrawn")
        return 0
    try:
        run_operations(tools or OperationTools(PciTree(Path(root))), operations)
    except (OperationFailure, OSError) as failure:
        say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
