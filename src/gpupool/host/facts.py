"""Prints what this machine offers a pool, for `gpupool doctor` without a running pool.

Changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from gpupool.agent.supervisor.cgroups import detect_cgroups
from gpupool.agent.supervisor.pool_cgroups import find_abandoned
from gpupool.base.settings import PoolPaths
from gpupool.host.settings.options import HostOptions
from gpupool.mechanisms.contract import FenceLevel
from gpupool.mechanisms.driver.installed_driver import find_installed_driver
from gpupool.mechanisms.fence_survey import FenceSurvey, survey_fence
from gpupool.mechanisms.released_step import has_released_step
from gpupool.probes.accounting import explain_accounting_off
from gpupool.probes.contract import Probe
from gpupool.probes.pci import scan_pci
from gpupool.probes.registry import list_probes

Check = dict[str, str]


def print_facts(options: HostOptions) -> int:
    """Print one JSON object with a list of checks, in the shape that `doctor` shows."""
    print(
        json.dumps(
            {
                "checks": [
                    *_check_drivers(PoolPaths(options.state_dir).agent),
                    *_check_bus(),
                    _check_cgroups(),
                    *find_leftovers(),
                    _check_fence(),
                ]
            }
        )
    )
    return 0


def _build_check(name: str, state: str, text: str, following: str = "") -> Check:
    return {"name": name, "state": state, "text": text, "next": following}


def _check_drivers(agent_dir: Path) -> Iterator[Check]:
    if has_released_step(agent_dir):
        # A look opens every card, and the switch would fail.
        said = "a card is being switched, which a look at the driver would disturb"
        yield _build_check("driver", "ok", said, "gpupool up")
        return
    for name, make in list_probes().items():
        probe = make()
        try:
            answer = probe.available()
            if answer.ok:
                yield _build_check("driver", "ok", _describe_machine(probe), "gpupool up")
                yield from check_accounting(probe)
            else:
                said = f"{name}: {answer.reason}; fine, simulation available"
                yield _build_check("driver", "ok", said, "gpupool up --sim 4xL40S")
        finally:
            probe.close()


def check_accounting(probe: Probe) -> Iterator[Check]:
    """Tell that the cards' accounting mode is off: an information, since nothing needs it."""
    said = explain_accounting_off(probe, [device.uuid for device in probe.scan().devices])
    if said:
        yield _build_check("accounting", "ok", said)


def _describe_machine(probe: Probe) -> str:
    machine = probe.scan()
    models = sorted({device.model for device in machine.devices})
    return f"driver {machine.driver_version or '--'}, {len(machine.devices)} cards: {', '.join(models)}"


def _check_bus() -> Iterator[Check]:
    """List the cards on the PCI bus that no pool on this host could use, and why."""
    for card in scan_pci():
        if card.problem:
            yield _build_check(
                f"card {card.address}", "warn", f"{card.vendor} {card.model}: {card.problem}"
            )


def _check_fence() -> Check:
    """Report the level of shares on this host's cards, or on simulated ones without any."""
    simulated = not find_installed_driver().files
    known = survey_fence(own_pool=os.geteuid() != 0, simulated=simulated)
    what = "simulated cards" if simulated else "this machine's cards"
    state = "ok" if known.level is not FenceLevel.NONE else "warn"
    return _build_check(
        "fence",
        state,
        f"shares of {what}: {known.level}: {known.why}; {known.way}",
        _next_step(known),
    )


def _next_step(known: FenceSurvey) -> str:
    """Return what to do about the parts that a fence lacks."""
    if known.missing and known.level is FenceLevel.NONE:
        return "reinstall gpupool-native of the same version"
    return "a newer gpupool may know them" if known.unclassified else ""


def _check_cgroups() -> Check:
    support = detect_cgroups()
    if support.kind == "none":
        why = "; ".join(support.refusals) or "no hierarchy is mounted"
        return _build_check(
            "cgroups", "warn", f"none can be used ({why}): jobs are followed by process tree only"
        )
    where = ", ".join(str(found.base) for found in support.job_hierarchies)
    return _build_check(
        "cgroups",
        "ok",
        f"cgroup {support.kind} at {where}: every process of a job is ended with it",
    )


def find_leftovers() -> Iterator[Check]:
    """List processes and cgroups of pools whose state directory is gone.

    No pool adopts them any more, so an operator has to end them.
    """
    for found in find_abandoned(detect_cgroups()):
        if found.processes:
            pids = " ".join(map(str, found.processes[:20]))
            said = f"processes of the pool at {found.root}, which is gone, still run: {len(found.processes)}"
            yield _build_check("leftovers", "warn", said, f"kill {pids}")
        else:
            said = f"{len(found.groups)} empty cgroups of the pool at {found.root}, which is gone"
            yield _build_check("leftovers", "warn", said, "gpupool up  removes them")
