"""All rigs by name, and which mechanism, layer or switch of the product has none.

A name is the kind and the name in the product's registry; what follows a colon tells machines apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpupool.mechanisms.card_modes import SWITCHES
from gpupool.mechanisms.compute_partitions import MemoryPartitionSwitch
from gpupool.mechanisms.registry import LAYERS, MECHANISMS
from tests.support.kill_rigs import handovers, layers, mig, simulated
from tests.support.kill_rigs.contract import RigBuilder

RIGS: Mapping[str, RigBuilder] = MappingProxyType(
    simulated.BUILDERS | handovers.BUILDERS | mig.BUILDERS | layers.BUILDERS
)


def list_registered() -> list[str]:
    """List what the product has registered, by the names of rigs."""
    found = [f"mechanism {name}" for name in MECHANISMS]
    found += [f"layer {layer.name}" for layer in LAYERS]
    for mode, switch in SWITCHES.items():
        # A memory partition mode is shown and never switched, so nothing of it can be killed.
        if not isinstance(switch, MemoryPartitionSwitch):
            found.append(f"switch {mode}")
    return found


def list_without_rig() -> list[str]:
    """List what is registered and has no rig."""
    covered = {name.split(":")[0] for name in RIGS}
    return [name for name in list_registered() if name not in covered]
