"""Compares the records with the instances that the cards have now. Changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.mechanisms.contract import ObservedAllocation, PreparationStep
from gpupool.mechanisms.mig.driver import DriverCallError, GpuInstance, InstanceDriver
from gpupool.mechanisms.mig.host_files import HostFiles
from gpupool.mechanisms.mig.instances import find_own_instance
from gpupool.mechanisms.mig.records import (
    InstanceRecord,
    Piece,
    list_record_paths,
    locate_record,
    read_record,
)
from gpupool.mechanisms.notes import NoteBook

#: Generation of an instance that gpupool did not make.
FOREIGN = 0

log = logging.getLogger(__name__)


def list_standing_records(
    driver: InstanceDriver, host: HostFiles, folder: Path, pieces: tuple[Piece, ...]
) -> list[InstanceRecord]:
    """Return the records of the pieces whose instances are there, whole and ours."""
    boot = host.read_boot()
    standing = []
    for position, piece in enumerate(pieces):
        record = read_record(locate_record(folder, position))
        if record is None or record.piece != piece or not record.is_complete:
            continue
        found = find_own_instance(driver, record, boot)
        if found is not None and record.compute in found.compute:
            standing.append(record)
    return standing


def find_instance_problem(
    driver: InstanceDriver, host: HostFiles, folder: Path, pieces: tuple[Piece, ...]
) -> str:
    """Return which partition of an allocation is gone; empty when all are there."""
    try:
        records = list_standing_records(driver, host, folder, pieces)
    except (DriverCallError, GpupoolError) as error:
        return f"its partition cannot be looked at: {error}"
    standing = [record.piece for record in records]
    gone = [piece for piece in pieces if piece not in standing]
    return f"its partition is gone: {gone[0].profile} of {gone[0].card}" if gone else ""


def list_foreign_instances(
    book: NoteBook, mechanism: str, driver: InstanceDriver, host: HostFiles
) -> list[tuple[str, GpuInstance]]:
    """Return card and instance of those that no record proves to be ours, on all cards.

    Raises:
        DriverCallError: the driver does not say.
        ServiceUnavailable: there is no driver, or it is closed.
    """
    found = []
    cards = driver.list_cards()
    own = _list_own_slots(book, mechanism, driver, host)
    for card in cards:
        for instance in driver.list_instances(card):
            if (card, instance.start) not in own:
                found.append((card, instance))
    return found


def iterate_foreign_instances(
    book: NoteBook, mechanism: str, driver: InstanceDriver, host: HostFiles
) -> Iterator[ObservedAllocation]:
    """Yield the instances that no record proves to be ours, on all cards of this machine."""
    try:
        for card, instance in list_foreign_instances(book, mechanism, driver, host):
            yield ObservedAllocation(
                f"foreign-{card}-gi{instance.number}",
                FOREIGN,
                PreparationStep.PREPARED,
                f"gpupool did not make GPU instance {instance.number} (profile "
                f"{instance.profile_id} at unit {instance.start})",
            )
    except ServiceUnavailable:
        return  # this machine has no driver, so it has no instance
    except (DriverCallError, GpupoolError) as error:
        log.warning("partitions that gpupool did not make cannot be listed: %s", error)


def _list_own_slots(
    book: NoteBook, mechanism: str, driver: InstanceDriver, host: HostFiles
) -> set[tuple[str, int]]:
    boot = host.read_boot()
    own = set()
    for note in book.iterate_mechanism(mechanism):
        for path in list_record_paths(book.locate_folder(note.allocation)):
            record = read_record(path)
            if record is None:
                continue
            if find_own_instance(driver, record, boot) is not None:
                own.add((record.piece.card, record.piece.start))
    return own
