"""The record of a suspended job, in the directory of its allocation.

`suspension.json` is written before the first process is touched and removed when all of them run
again. So a job with a record may have memory on the host or stopped processes, and one without has
neither. The agent is the only writer.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gpupool.base.durable import write_durably
from gpupool.base.errors import StateNewer
from gpupool.mechanisms.notes import NoteBook

#: The version of the file's format; a later one raises StateNewer.
VERSION: Final = 2
FILE: Final = "suspension.json"


@dataclass(frozen=True)
class SuspensionRecord:
    """What the agent has begun.

    Attributes:
        supervisor_pid: the supervisor, below which all processes of the job are.
        card_bytes: what the job had on its cards before; as much main memory it needs.
        is_closed: whether the share is closed instead of the processes being stopped.
        is_checked: whether the job did no work after its share was closed, so that it may be moved.
        is_suspended: whether the suspend was reached and may have been reported. From then on the
            server has given the cards to others, so the job must not run before a resume.
    """

    supervisor_pid: int
    card_bytes: int
    is_suspended: bool = False
    is_closed: bool = False
    is_checked: bool = False


def locate_folder(state_dir: Path, allocation: str) -> Path:
    """Return the directory that holds the record, beside the notes of mechanisms."""
    return NoteBook(state_dir).locate_folder(allocation)


def read_record(folder: Path) -> SuspensionRecord | None:
    """Return the record; None where the job was not suspended. Raises StateNewer."""
    try:
        document = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if document.pop("version") > VERSION:
        raise StateNewer(f"{folder / FILE} was written by a newer gpupool", hint="run that version")
    return SuspensionRecord(**document)


def write_record(folder: Path, record: SuspensionRecord) -> None:
    """Write the record. It is on disk when this returns."""
    content = json.dumps({"version": VERSION, **asdict(record)})
    write_durably(folder / FILE, content.encode(), mode=0o600)


def remove_record(folder: Path) -> None:
    """Remove the record: nothing of the job is suspended. Idempotent."""
    (folder / FILE).unlink(missing_ok=True)
