"""The nodes of one agent: what the probes found, and its registration with the server."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpupool import __version__
from gpupool.agent.config import AgentConfig
from gpupool.agent.facts import describe_node
from gpupool.agent.reports import Api
from gpupool.base.errors import ProbeSuspended
from gpupool.mechanisms.fence_survey import survey_fence
from gpupool.mechanisms.foreign_pieces import ForeignPieceFinder, ForeignPieces
from gpupool.mechanisms.mig.mode_switch import MigModeSwitch
from gpupool.mechanisms.mig.simulated_switch import locate_modes
from gpupool.mechanisms.offers.host_facts import read_host_facts
from gpupool.mechanisms.pci.mode_switch import mark_modes
from gpupool.mechanisms.released_step import await_released_steps, is_driver_suspended
from gpupool.model.device import CardMode, Device
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.probes.accounting import explain_accounting_off
from gpupool.probes.contract import Machine, Probe
from gpupool.probes.simulated import SimulatedProbe
from gpupool.wire.fleet import NodeIn

log = logging.getLogger(__name__)


class AgentNodes:
    """The machines that an agent serves: one real machine, or several simulated ones."""

    def __init__(
        self,
        config: AgentConfig,
        probes: Mapping[str, Probe],
        state_dir: Path,
        *,
        cgroups: str,
        fence_reaction: str,
        mig_switch: MigModeSwitch | None = None,
    ) -> None:
        """Make the nodes; `scan` finds their devices.

        Args:
            config: The agent's settings.
            probes: The probe of each node.
            state_dir: Where the records of switched cards are.
            cgroups: What `CgroupSupport.kind` says of this host.
            fence_reaction: What happens to a job that bypasses its fence.
            mig_switch: The MIG switch of real cards.
        """
        self._config = config
        self._probes = dict(probes)
        self._cgroup_kind = cgroups
        self._fence_reaction = fence_reaction
        self._state_dir = state_dir
        self._machines: dict[str, Machine] = {}
        self._finder = ForeignPieceFinder(state_dir)
        self._foreign: ForeignPieces = {}
        #: The last registration of each node.
        self._bodies: dict[str, NodeIn] = {}
        self._mig_switch = mig_switch or MigModeSwitch()
        #: By uuid, what a card waits for that lost MIG mode and is to be in it.
        self._waiting: dict[str, str] = {}

    @property
    def machines(self) -> Mapping[str, Machine]:
        """What the last scan found, by node."""
        return self._machines

    def list_devices(self) -> dict[str, tuple[Device, ...]]:
        """List the devices of each node."""
        return {name: machine.devices for name, machine in self._machines.items()}

    def read_registered(self) -> object:
        """Return what a registration depends on: when it differs, the nodes register again."""
        modes = {}
        for uuid, device in self.index_devices().items():
            modes[uuid] = (device.mode, uuid in self._waiting)
        return modes, self._foreign

    def index_devices(self) -> dict[str, Device]:
        """Index the devices of all nodes by uuid."""
        found = {}
        for machine in self._machines.values():
            found.update({device.uuid: device for device in machine.devices})
        return found

    def scan(self) -> None:
        """Ask every probe what is there. Blocks for the drivers.

        Cards that cannot be read while a step needs their driver closed stay as they were.
        """
        if not self._machines:
            await_released_steps(self._state_dir)
        if not self._machines or self._waiting:
            self._restore_modes()
        machines = {}
        for name, probe in self._probes.items():
            try:
                machines[name] = self._mark_modes(name, probe.scan())
            except ProbeSuspended as reason:
                log.info("the cards of %s are not scanned: %s", name, reason.message)
                machines[name] = self._mark_modes(name, self._machines[name])
        self._machines = machines
        self._foreign = self._finder.find(self.index_devices().values())

    def _mark_modes(self, name: str, machine: Machine) -> Machine:
        if machine.simulated:
            marked = locate_modes(self._state_dir).mark_modes(machine.devices)
            return replace(machine, devices=marked)
        labels = self._config.labels.get(name, {})
        devices = mark_modes(machine.devices, self._state_dir, labels)
        return replace(machine, devices=tuple(self._keep_from_jobs(device) for device in devices))

    def _restore_modes(self) -> None:
        """Put cards that lost MIG mode at a boot back into it. Blocks for the driver."""
        waiting = dict[str, str]()
        for name, probe in self._probes.items():
            try:
                machine = probe.scan()
            except ProbeSuspended as error:
                log.info("the modes of %s are not restored now: %s", name, error.message)
                waiting |= self._waiting
                continue
            # A reset that begins here closes the driver for the scan that follows.
            self._machines[name] = machine
            if not machine.simulated:
                waiting.update(self._mig_switch.restore(machine.devices, self._state_dir))
        for uuid, reason in waiting.items():
            if self._waiting.get(uuid) != reason:
                log.warning("card %s is not in MIG mode yet: %s", uuid, reason)
        self._waiting = waiting

    def _keep_from_jobs(self, device: Device) -> Device:
        """Show a card that waits for MIG mode, or has not left it, as one without partitions now.

        As a plain card it would be handed out, and could not be switched back under its jobs. One
        whose record still says that it leaves would stay so, and refuse every other mode.
        """
        is_left_open = device.mode is CardMode.PLAIN and self._mig_switch.is_leaving(
            device.uuid, self._state_dir
        )
        if device.uuid not in self._waiting and not is_left_open:
            return device
        return replace(device, partitioned=True, profiles=(), mode=CardMode.MIG)

    def is_simulated(self) -> bool:
        """Whether every node is simulated: then devices neither come nor go."""
        return all(machine.simulated for machine in self._machines.values())

    def read_host_facts(self) -> HostFacts:
        """Read what decides which mechanisms this host offers. Blocks for some small files."""
        return read_host_facts(own_pool=self._config.owner_uid != 0, cgroups=self._cgroup_kind)

    def register(self, api: Api) -> None:
        """Register every node with the server. Idempotent; blocks for one request a node.

        Raises:
            GpupoolError: The server does not answer or refuses.
        """
        for name in self._machines:
            # What cards offer cannot be read while their driver is closed.
            if name not in self._bodies or not is_driver_suspended():
                self._bodies[name] = self._describe_node(name)
            body = self._bodies[name].model_dump(mode="json")
            api.request("PUT", f"nodes/{quote(name)}", body, whole_state=True)

    def _describe_node(self, name: str) -> NodeIn:
        machine = self._machines[name]
        facts = self._collect_facts(name, machine)
        labels = self._config.labels.get(name, {})
        host = self._place_cards(name, self.read_host_facts())
        return describe_node(machine, self._config.name, labels, facts, host, self._foreign)

    def _place_cards(self, name: str, host: HostFacts) -> HostFacts:
        """Add where the file of a simulated node's cards is."""
        probe = self._probes[name]
        if not isinstance(probe, SimulatedProbe) or probe.machine_file is None:
            return host
        return replace(host, machine=str(probe.machine_file.parent))

    def _collect_facts(self, name: str, machine: Machine) -> dict[str, Any]:
        own_pool = self._config.owner_uid != 0
        fence = survey_fence(own_pool=own_pool, simulated=machine.simulated).list_facts()
        facts: dict[str, Any] = {
            "agent_version": __version__,
            "hostname": socket.gethostname(),
            "cgroups": self._cgroup_kind,
            "owner_uid": self._config.owner_uid,
            "fence": {**fence, "reaction": self._fence_reaction},
        }
        uuids = [device.uuid for device in machine.devices]
        refusal = explain_accounting_off(self._probes[name], uuids)
        if refusal:
            facts["accounting"] = refusal
        return facts
