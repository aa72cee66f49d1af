"""What this machine offers a pool, for `gpupool doctor` when no pool is there to ask. Changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from gpupool.agent.cgroups import detect
from gpupool.agent.pool_groups import find_abandoned
from gpupool.host.options import Options
from gpupool.mechanisms.contract import FenceLevel
from gpupool.mechanisms.driver_files import installed_driver
from gpupool.mechanisms.fence_survey import FenceSurvey, survey
from gpupool.probes.accounting import accounting_off
from gpupool.probes.contract import Probe
from gpupool.probes.pci import scan_pci
from gpupool.probes.registry import PROBES

Check = dict[str, str]


def facts(_options: Options) -> int:
    """Print one JSON object with a list of checks, in the shape that `doctor` shows."""
    print(json.dumps({"checks": [*_drivers(), *_bus(), _cgroups(), *leftovers(), _fence()]}))
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
                yield from accounting(probe)
            else:
                said = f"{name}: {answer.reason}; fine, simulation available"
                yield _check("driver", "ok", said, "gpupool up --sim 4xL40S")
        finally:
            probe.close()


def accounting(probe: Probe) -> Iterator[Check]:
    """Where the cards' accounting mode is off: information, since nothing needs it."""
    said = accounting_off(probe, [device.uuid for device in probe.scan().devices])
    if said:
        yield _check("accounting", "ok", said)


def _found(probe: Probe) -> str:
    machine = probe.scan()
    models = sorted({device.model for device in machine.devices})
    return f"driver {machine.driver_version or '--'}, {len(machine.devices)} cards: {', '.join(models)}"


def _bus() -> Iterator[Check]:
    """Cards on the PCI bus that no pool on this host could use, and why."""
    for card in scan_pci():
        if card.problem:
            yield _check(f"card {card.address}", "warn", f"{card.vendor} {card.model}: {card.problem}")


def _fence() -> Check:
    """What shares would be held by here: of the cards there are, else of simulated ones."""
    simulated = not installed_driver().files
    known = survey(own_pool=os.geteuid() != 0, simulated=simulated)
    what = "simulated cards" if simulated else "this machine's cards"
    state = "ok" if known.level is not FenceLevel.NONE else "warn"
    return _check("fence", state, f"shares of {what}: {known.level}: {known.why}; {known.way}", _next_step(known))


def _next_step(known: FenceSurvey) -> str:
    """What to do about what a fence lacks."""
    if known.missing and known.level is FenceLevel.NONE:
        return "reinstall gpupool-native of the same version"
    return "a newer gpupool may know them" if known.unclassified else ""


def _cgroups() -> Check:
    support = detect()
    if support.kind == "none":
        why = "; ".join(support.refusals) or "no hierarchy is mounted"
        return _check("cgroups", "warn", f"none can be used ({why}): jobs are followed by process tree only")
    where = ", ".join(str(found.base) for found in support.used)
    return _check("cgroups", "ok", f"cgroup {support.kind} at {where}: every process of a job is ended with it")


def leftovers() -> Iterator[Check]:
    """Processes and cgroups of pools whose state directory is gone, which no pool takes up again."""
    for found in find_abandoned(detect()):
        if found.processes:
            pids = " ".join(map(str, found.processes[:20]))
            said = f"processes of the pool at {found.root}, which is gone, still run: {len(found.processes)}"
            yield _check("leftovers", "warn", said, f"kill {pids}")
        else:
            said = f"{len(found.groups)} empty cgroups of the pool at {found.root}, which is gone"
            yield _check("leftovers", "warn", said, "gpupool up  removes them")
