"""Finds what other tools have made of a node's cards: MIG instances, virtual functions, MPS daemons.

An agent publishes them with its cards, so that partitions are not placed on their slots. Nothing
here changes anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gpupool.base.errors import GpupoolError
from gpupool.mechanisms.mig.driver import DriverCallError, GpuInstance, InstanceDriver
from gpupool.mechanisms.mig.host_files import HostFiles
from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.mechanisms.mig.observation import list_foreign_instances
from gpupool.mechanisms.mps.daemon import DaemonProcesses
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.pci.requests import read_address
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.model.device import CardMode, Device
from gpupool.model.partition import ForeignPiece, PartitionSlot
from gpupool.probes.nvml.instances import NvmlInstances

log = logging.getLogger(__name__)

#: Foreign pieces by the card's uuid; a card without any is left out.
ForeignPieces = Mapping[str, tuple[ForeignPiece, ...]]
#: Modes in which a card's virtual functions are made by a switch of gpupool.
_FUNCTION_MODES = (CardMode.SRIOV, CardMode.VGPU)


class ForeignPieceFinder:
    """Looks for foreign pieces of the cards of one agent. Blocks for the driver and for `/proc`.

    Args:
        state_dir: the agent's; its records say what is ours.
        driver: the driver's calls for MIG; loaded where a card is in MIG mode.
    """

    def __init__(
        self,
        state_dir: Path,
        root: Path = Path("/"),
        driver: InstanceDriver | None = None,
        host: HostFiles | None = None,
        processes: DaemonProcesses | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._tree = PciTree(root)
        self._driver: InstanceDriver = driver or NvmlInstances()
        self._host = host or HostFiles()
        self._processes = processes or DaemonProcesses()
        #: What the last look of each kind found.
        self._found: list[ForeignPieces] = [{}, {}, {}]

    def find(self, devices: Iterable[Device]) -> ForeignPieces:
        """Return the foreign pieces of real cards; those of the last look where a look fails."""
        real = [device for device in devices if not device.simulated]
        looks: tuple[Callable[[Sequence[Device]], ForeignPieces], ...] = (
            self._find_instances,
            self._find_functions,
            self._find_daemons,
        )
        pieces: dict[str, tuple[ForeignPiece, ...]] = {}
        for number, look in enumerate(looks):
            try:
                self._found[number] = look(real)
            except (DriverCallError, GpupoolError, OSError) as error:
                log.warning("pieces of cards by other tools are those of before: %s", error)
            for uuid, found in self._found[number].items():
                pieces[uuid] = (*pieces.get(uuid, ()), *found)
        return pieces

    def _find_instances(self, devices: Sequence[Device]) -> ForeignPieces:
        # Without a card in MIG mode the driver is not asked: it may not be NVIDIA's.
        cards = {device.uuid: device for device in devices if device.mode is CardMode.MIG}
        if not cards:
            return {}
        book = NoteBook(self._state_dir)
        pieces: dict[str, tuple[ForeignPiece, ...]] = {}
        for uuid, one in list_foreign_instances(book, MigMechanism.name, self._driver, self._host):
            if uuid in cards:
                pieces[uuid] = (*pieces.get(uuid, ()), _describe_instance(cards[uuid], one))
        return pieces

    def _find_functions(self, devices: Sequence[Device]) -> ForeignPieces:
        pieces = {}
        for device in devices:
            if device.pci_address is None or device.mode in _FUNCTION_MODES:
                continue
            address = read_address(device)
            if self._tree.has_function(address):
                count = self._tree.describe(address).functions
                if count:
                    text = f"{count} virtual functions that gpupool did not create"
                    pieces[device.uuid] = (ForeignPiece(text),)
        return pieces

    def _find_daemons(self, devices: Sequence[Device]) -> ForeignPieces:
        pieces = {}
        for device in devices:
            if device.vendor != "nvidia":
                continue
            found = []
            for pid in self._processes.find_foreign(device.uuid, self._state_dir / "mps"):
                text = f"an MPS process that gpupool did not start (pid {pid})"
                found.append(ForeignPiece(text))
            if found:
                pieces[device.uuid] = tuple(found)
        return pieces


def _describe_instance(device: Device, instance: GpuInstance) -> ForeignPiece:
    name = f"profile {instance.profile_id}"
    for profile in device.profiles:
        if profile.profile_id == instance.profile_id:
            name = profile.name
    return ForeignPiece(
        f"an instance that gpupool did not create ({name}, GPU instance {instance.number})",
        PartitionSlot(instance.start, instance.size, name),
    )
