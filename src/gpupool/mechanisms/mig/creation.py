"""Creates the instances of one allocation: the slow step of `MigMechanism.prepare`.

It runs in a process of its own, because a call of the driver takes from a tenth of a second to many
seconds on a loaded machine. It reads what to create from the allocation's note, and stops where the
note says that the allocation is being released. Safe to repeat after a kill at any line.

`python -m gpupool.mechanisms.mig.creation FOLDER ROOT` is that process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gpupool.base.errors import GpupoolError, RequestRejection
from gpupool.mechanisms.contract import PreparationStep
from gpupool.mechanisms.mig.driver import DriverCallError, InstanceDriver
from gpupool.mechanisms.mig.host_files import HostFiles
from gpupool.mechanisms.mig.instances import create_piece
from gpupool.mechanisms.mig.records import locate_record, lock_card, read_pieces
from gpupool.mechanisms.notes import NoteBook

#: Exit codes: all is created; the request cannot be served; the driver failed.
CREATED = 0
REFUSED = 3
FAILED = 4


def create_instances(driver: InstanceDriver, folder: Path, host: HostFiles) -> None:
    """Create all pieces of an allocation. Idempotent; blocks for the driver.

    Raises:
        RequestRejection: a slot is taken, or the allocation is being released.
        DriverCallError: the driver refuses.
    """
    # `<state>/prepared/<allocation>`
    state_dir = folder.parent.parent
    book = NoteBook(state_dir)
    boot = host.read_boot()
    note = book.read_note(folder.name)
    for position, piece in enumerate(() if note is None else read_pieces(note.made)):
        with lock_card(state_dir, piece.card):
            # Read again under the lock: a release that came first must find nothing new later.
            latest = book.read_note(folder.name)
            if latest is None or latest.step is PreparationStep.RELEASING:
                raise RequestRejection(f"allocation {folder.name} is being released")
            create_piece(driver, piece, locate_record(folder, position), boot)


def run_creation(driver: InstanceDriver, folder: Path, host: HostFiles) -> tuple[int, str]:
    """Create all pieces and return the exit code and what to tell people."""
    try:
        create_instances(driver, folder, host)
    except RequestRejection as refusal:
        hint = f"; {refusal.hint}" if refusal.hint else ""
        return REFUSED, f"{refusal.message}{hint}"
    except GpupoolError as error:
        return FAILED, error.message
    except DriverCallError as error:
        return FAILED, f"the driver refuses to create a partition: {error}"
    return CREATED, ""


def main(arguments: Sequence[str]) -> int:
    """Run the step on this machine's driver."""
    # Imported here: the mechanism imports this module in every agent, also without a card.
    from gpupool.probes.nvml.instances import NvmlInstances

    host = HostFiles(root=Path(arguments[1]))
    code, text = run_creation(NvmlInstances(), Path(arguments[0]), host)
    if text:
        sys.stdout.write(f"{text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
