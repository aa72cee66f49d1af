"""Finds why MPS cannot serve an allocation: by the allocation alone, or by what else runs here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpupool.mechanisms.bookkeeping import find_size_problem
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode
from gpupool.mechanisms.card_settings.records import CardRecord
from gpupool.mechanisms.contract import AllocationView, HostKind
from gpupool.mechanisms.notes import PreparationNote
from gpupool.model.device import CardMode, Device

#: The word for it in a claim.
SHARING: Final = "mps"
#: Clients of one server (CUDA MPS documentation, "Limitations").
CLIENT_LIMIT: Final = 48
#: Before Volta a server has no limits for its clients.
LEAST_CAPABILITY: Final = (7, 0)
#: Below it any account that reaches the control socket changes limits (tried: 535.261.03 allows it,
#: 550.163.01 refuses it).
LEAST_DRIVER_BESIDE_OTHERS: Final = 550


def find_own_problem(view: AllocationView) -> str:
    """Return why MPS cannot serve an allocation, whatever else runs; empty when it can."""
    if view.sharing != SHARING:
        return f"the claim asks for sharing {view.sharing}"
    if len(view.granted) != 1:
        return f"{len(view.granted)} cards, 1 is the most: each card has its own MPS daemon"
    if view.host is not HostKind.PROCESS or view.seat.container:
        return "a container or VM does not share /dev/shm with the MPS daemon, which clients need"
    grant = view.granted[0]
    if grant.profile is not None:
        return f"a partition ({grant.profile}) and MPS exclude each other"
    if problem := _find_card_problem(grant.device):
        return problem
    if view.seat.own_pool:
        return "only root can set a card's compute mode, and this pool is a user's own"
    return find_size_problem(view)


def _find_card_problem(device: Device) -> str:
    if device.vendor != "nvidia":
        return f"{device.uuid} is a card of {device.vendor}: only NVIDIA's have MPS"
    if device.simulated:
        return f"{device.uuid} is a simulated card: NVIDIA's MPS server needs NVIDIA's driver"
    if device.partitioned:
        return f"{device.uuid} is in MIG mode"
    if device.mode not in (CardMode.PLAIN, CardMode.MPS):
        return f"{device.uuid} is set up for {device.mode}"
    capability = device.compute_capability
    if capability is None or capability < LEAST_CAPABILITY:
        least = ".".join(map(str, LEAST_CAPABILITY))
        text = "unknown" if capability is None else ".".join(map(str, capability))
        return f"{device.uuid} has compute capability {text}, {least} is the least with limits"
    return ""


@dataclass(frozen=True)
class CardSituation:
    """What else is on the node and on the card when an allocation comes.

    Attributes:
        notes: of all allocations that are prepared on the node.
        clients: processes that are connected to the card's server now.
        foreign: MPS processes that could serve the card and are not ours.
    """

    record: CardRecord | None
    mode: ComputeMode
    notes: tuple[PreparationNote, ...] = ()
    clients: int = 0
    foreign: tuple[int, ...] = ()


def find_neighbour_problem(view: AllocationView, situation: CardSituation) -> str:
    """Return why MPS cannot serve an allocation beside what runs; empty when it can."""
    device = view.granted[0].device
    record = situation.record
    if record is not None and (record.tenant, record.uid) != (view.tenant, view.seat.uid):
        # The text reaches the tenant of the job, which learns of no other one by name.
        whose = "another account" if record.tenant == view.tenant else "another tenant"
        return f"{device.uuid} has an MPS daemon of {whose}, and serves one owner at a time"
    if situation.mode is ComputeMode.PROHIBITED:
        return f"{device.uuid} has compute mode {situation.mode}: an operator closed it"
    if situation.foreign:
        return f"an MPS process that is not ours serves {device.uuid}: pid {situation.foreign[0]}"
    others = [note for note in situation.notes if note.allocation != view.allocation]
    return (
        _find_tenant_problem(view, device, others)
        or _find_other_use(device, others)
        or _find_client_problem(view, situation)
    )


def _find_tenant_problem(
    view: AllocationView, device: Device, others: Iterable[PreparationNote]
) -> str:
    driver = (device.driver_version or "").partition(".")[0]
    if driver.isdigit() and int(driver) >= LEAST_DRIVER_BESIDE_OTHERS:
        return ""
    strangers = {_read_share(note).get("tenant", "") for note in others} - {view.tenant, ""}
    if not strangers:
        return ""
    return (
        f"driver {device.driver_version or 'of unknown version'} lets every account change MPS "
        f"limits, {LEAST_DRIVER_BESIDE_OTHERS} is the least beside other tenants, and "
        f"{len(strangers)} of them have jobs on this node"
    )


def _find_other_use(device: Device, others: Iterable[PreparationNote]) -> str:
    for note in others:
        devices = _read_share(note).get("devices", ())
        if note.mechanism != SHARING and any(one["uuid"] == device.uuid for one in devices):
            return (
                f"allocation {note.allocation} uses {device.uuid} by {note.mechanism}: the "
                "compute mode of MPS would stop it"
            )
    return ""


def _find_client_problem(view: AllocationView, situation: CardSituation) -> str:
    users = set(situation.record.users if situation.record else ()) - {view.allocation}
    clients = max(len(users), situation.clients)
    if clients < CLIENT_LIMIT:
        return ""
    return f"{clients} clients are on its MPS server, {CLIENT_LIMIT} is the most"


def _read_share(note: PreparationNote) -> Mapping[str, Any]:
    """Return the share document of a note, whatever else the mechanism wrote beside it."""
    share = note.made.get("share", note.made)
    return share if isinstance(share, Mapping) else {}
