"""What this machine offers a pool, for `gpupool doctor` when no pool is there to ask. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpupool.agent.cgroups import detect
from gpupool.host.options import Options
from gpupool.probes.contract import Probe
from gpupool.probes.pci import scan_pci
from gpupool.probes.registry import PROBES

Check = dict[str, str]


def facts(_options: Options) -> int:
    """Print one JSON object with a list of checks, in the shape that `doctor` shows."""
    print(json.dumps({"checks": [*_drivers(), *_bus(), _cgroups()]}))
    return 0


def _check(name: str, state: str, text: str, following: str = "") -> Check:
    return {"name": name, "state": state, "text": text, "next": following}


def _drivers() -> Iterator[Check]:
    for name, make in PROBES.items():
        probe = make()
        try:
            answer = probe.available()
            if answer.ok:
                yield _check("driver", "ok", _found(probe), "gpupool up")
            else:
                said = f"{name}: {answer.reason}; fine, simulation available"
                yield _check("driver", "ok", said, "gpupool up --sim 4xL40S")
        finally:
            probe.close()


def _found(probe: Probe) -> str:
    machine = probe.scan()
    models = sorted({device.model for device in machine.devices})
    return f"driver {machine.driver_version or '--'}, {len(machine.devices)} cards: {', '.join(models)}"


def _bus() -> Iterator[Check]:
    """Cards on the PCI bus that no pool on this host could use, and why."""
    for card in scan_pci():
        if card.problem:
            yield _check(f"card {card.address}", "warn", f"{card.vendor} {card.model}: {card.problem}")


def _cgroups() -> Check:
    support = detect()
    if support.kind == "none":
        why = "; ".join(support.refusals) or "no hierarchy is mounted"
        return _check("cgroups", "warn", f"none can be used ({why}): jobs are followed by process tree only")
    where = ", ".join(str(found.base) for found in support.used)
    return _check("cgroups", "ok", f"cgroup {support.kind} at {where}: every process of a job is ended with it")
