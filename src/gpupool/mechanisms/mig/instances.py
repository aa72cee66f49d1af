"""Creates and destroys the instances of a piece, also after a crash half-way.

Both functions read what is there, compare, change, and read back. The caller holds the card's lock.
A half-made instance (a GPU instance without a compute instance) is completed or destroyed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpupool.base.errors import RequestRejection, ServiceUnavailable, StillInUse
from gpupool.mechanisms.mig.driver import (
    CallProblem,
    DriverCallError,
    GpuInstance,
    InstanceDriver,
)
from gpupool.mechanisms.mig.host_files import (
    HostFiles,
    find_open_handles,
    format_handles,
    list_instance_nodes,
)
from gpupool.mechanisms.mig.records import (
    InstanceRecord,
    Piece,
    read_record,
    remove_record,
    write_record,
)


def create_piece(driver: InstanceDriver, piece: Piece, path: Path, boot: str) -> InstanceRecord:
    """Create a piece's instances, or finish what a crash left; returns its complete record.

    Raises:
        RequestRejection: the slot holds something that gpupool did not make.
        DriverCallError: the driver refuses for another reason.
    """
    known = read_record(path)
    standing = None
    if known is not None and known.piece == piece:
        standing = find_own_instance(driver, known, boot)
    if standing is None:
        _refuse_overlap(driver.list_instances(piece.card), piece)
        write_record(path, InstanceRecord(piece, boot))
        standing = _create_instance(driver, piece, path)
    compute = standing.compute[0] if standing.compute else _create_compute(driver, piece, standing)
    uuid = driver.read_partition_uuid(piece.card, standing.number, compute)
    record = InstanceRecord(piece, boot, standing.number, compute, uuid)
    write_record(path, record)
    return record


def destroy_piece(driver: InstanceDriver, path: Path, host: HostFiles) -> None:
    """Destroy exactly the instances that a record names, then remove the record. Idempotent.

    Raises:
        StillInUse: a program has the partition open.
        DriverCallError: the driver refuses for another reason.
    """
    record = read_record(path)
    if record is None:
        return
    standing = find_own_instance(driver, record, host.read_boot())
    if standing is not None:
        _refuse_open_handles(driver, record.piece, standing, host)
        for compute in standing.compute:
            _destroy(driver.destroy_compute, record.piece.card, standing.number, compute)
        _destroy(driver.destroy_instance, record.piece.card, standing.number)
        # Measured, not believed: a call may succeed without effect.
        if find_instance(driver, record.piece) is not None:
            raise ServiceUnavailable(
                f"GPU instance {standing.number} of {record.piece.card} is still there after the "
                "driver destroyed it"
            )
    remove_record(path)


def find_own_instance(
    driver: InstanceDriver, record: InstanceRecord, boot: str
) -> GpuInstance | None:
    """Return the instance that a record proves to be ours, None where it is gone."""
    if record.boot != boot:
        return None
    standing = find_instance(driver, record.piece)
    if standing is None or record.number is None:
        return standing
    if standing.number != record.number:
        return None
    # A number is used again; so is a uuid, which the driver makes from the numbers. Both agree
    # also for an instance that another tool made in our slot after it destroyed ours.
    if record.compute in standing.compute and record.compute is not None:
        uuid = driver.read_partition_uuid(record.piece.card, standing.number, record.compute)
        return standing if uuid == record.uuid else None
    return standing


def find_instance(driver: InstanceDriver, piece: Piece) -> GpuInstance | None:
    """Return the instance of exactly this profile in exactly this slot."""
    for instance in driver.list_instances(piece.card):
        place = (instance.profile_id, instance.start, instance.size)
        if place == (piece.profile_id, piece.start, piece.size):
            return instance
    return None


def _create_instance(driver: InstanceDriver, piece: Piece, path: Path) -> GpuInstance:
    try:
        number = driver.create_instance(piece.card, piece.profile_id, piece.start, piece.size)
    except DriverCallError as error:
        # What stands in the slot after this answer was made by another tool just now; after any
        # other error it may be ours, and the record stays.
        occupied = error.problem is CallProblem.OCCUPIED
        if occupied or find_instance(driver, piece) is None:
            remove_record(path)
        if occupied:
            _refuse_overlap(driver.list_instances(piece.card), piece)
        raise
    return GpuInstance(number, piece.profile_id, piece.start, piece.size)


def _create_compute(driver: InstanceDriver, piece: Piece, standing: GpuInstance) -> int:
    try:
        return driver.create_compute(piece.card, standing.number)
    except DriverCallError as error:
        # The driver says the same of a compute instance that exists already.
        again = find_instance(driver, piece)
        if error.problem is CallProblem.OCCUPIED and again is not None and again.compute:
            return again.compute[0]
        raise


def _refuse_overlap(instances: tuple[GpuInstance, ...], piece: Piece) -> None:
    for instance in instances:
        if piece.start < instance.start + instance.size and instance.start < (
            piece.start + piece.size
        ):
            raise RequestRejection(
                f"{piece.profile} at unit {piece.start} of {piece.card} is taken by GPU instance "
                f"{instance.number} (profile {instance.profile_id}, units {instance.start}-"
                f"{instance.start + instance.size - 1}), which gpupool did not make",
                hint=f"nvidia-smi mig -lgi; nvidia-smi mig -dci -gi {instance.number} && "
                f"nvidia-smi mig -dgi -gi {instance.number} -i {piece.card}",
            )


def _refuse_open_handles(
    driver: InstanceDriver, piece: Piece, standing: GpuInstance, host: HostFiles
) -> None:
    minor = driver.read_minor(piece.card)
    nodes = list[str]()
    for compute in standing.compute:
        nodes.extend(list_instance_nodes(host, minor, standing.number, compute))
    handles = find_open_handles(host, nodes)
    if handles:
        raise StillInUse(
            f"{piece.profile} of {piece.card} is open in {format_handles(handles)}",
            hint="it is destroyed when they have ended",
        )


def _destroy(call: Callable[..., None], *arguments: str | int) -> None:
    try:
        call(*arguments)
    except DriverCallError as error:
        if error.problem is CallProblem.IN_USE:
            raise StillInUse(
                f"the driver says that the partition is in use ({error})",
                hint="a hidden client may have it open: stop DCGM (systemctl stop nvidia-dcgm)",
            ) from error
        if error.problem is not CallProblem.ABSENT:
            raise
