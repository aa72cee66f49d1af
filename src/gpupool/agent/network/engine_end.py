"""Ends the engine of networks on a machine, and removes all that it and its jobs' cables left."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.balancing.proxies import end_proxies
from gpupool.agent.network.centre import Centre
from gpupool.agent.network.daemons import EngineFiles, locate_engine
from gpupool.agent.network.gateways.gateway_machine import OUTSIDE, GatewayMachine
from gpupool.agent.network.gateways.outside_addresses import OutsideAddresses
from gpupool.agent.network.lines.speakers import LineSpeakers
from gpupool.agent.network.namespaces import JobNamespaces, remove_namespace
from gpupool.agent.network.naming.resolver_processes import ResolverProcesses
from gpupool.agent.network.tunnel import Tunnel
from gpupool.agent.network.vm_taps import VmTaps
from gpupool.agent.network.zones.zone_files import list_zones, locate_zone
from gpupool.agent.network.zones.zone_uplink import make_uplink
from gpupool.network.ovn.control import ask_controller, is_controller_connected

#: Seconds in which a controller removes its chassis; it is killed afterwards.
_CONTROLLER_SECONDS: Final = 5.0
#: What the helpers' records name as their user.
ENGINE: Final = "engine"


def make_helpers(root: Path, owner_uid: int) -> HelperProcesses:
    """Return the daemons of the engine whose directory is `root`."""
    return HelperProcesses(root / "daemons", owner_uid, lambda _name: ())


def _end_controller(files: EngineFiles) -> None:
    """Let a controller that is connected remove its chassis: a signal alone would leave it there."""
    if not is_controller_connected(files.run):
        return
    ask_controller(files.run, "exit")
    deadline = time.monotonic() + _CONTROLLER_SECONDS
    while ask_controller(files.run, "version") and time.monotonic() < deadline:
        time.sleep(0.02)


def remove_engine(agent_dir: Path) -> None:
    """End the engine of an agent that does not run, and remove all of it. Idempotent.

    Raises SupervisorError where a daemon does not end.
    """
    root = agent_dir / "network"
    if root.exists():
        end_engine(root, os.geteuid())


def end_engine(root: Path, owner_uid: int) -> None:
    """End the daemons and remove all that they and the jobs' cables left. Idempotent.

    The zones above 0 come first, with the engine of zone 0.

    Raises SupervisorError where a process does not end.
    """
    for zone in list_zones(root):
        end_engine(locate_zone(root, zone), owner_uid)
    files = locate_engine(root)
    helpers = make_helpers(root, owner_uid)
    ResolverProcesses(files, root, owner_uid).remove()
    namespaces = JobNamespaces(files)
    for port in namespaces.list_ports():
        namespaces.remove(port)
    # The QEMU of a VM keeps the switch's namespace until it ends: its tap goes before.
    for port in VmTaps(files).list_ports():
        namespaces.clear(port)
    end_proxies(files, helpers)
    GatewayMachine(files, root, helpers, "").end()
    lines = LineSpeakers(files, root, helpers)
    lines.end()
    # Also of speakers whose namespace is gone.
    helpers.release_unknown({ENGINE})
    _end_controller(files)
    helpers.release(ENGINE)
    Centre(files, root, helpers).remove()
    lines.release_interface()
    Tunnel(files, root).remove()
    OutsideAddresses(root / OUTSIDE).release()
    make_uplink(files, root).remove()
    # With the interfaces that a switch in user space leaves when it ends.
    remove_namespace(files.namespace)
    shutil.rmtree(files.run, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
