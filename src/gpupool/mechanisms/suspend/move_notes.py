"""Records which processes this pool has locked, before it locks them.

One file, `moves.json`: the last move that was announced for each process, by pid and start time. A
process that is locked without a note was locked by another program, which is left alone. The
process that moves is the only writer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from gpupool.base.durable import write_durably

FILE: Final = "moves.json"


class MoveNotes:
    """The notes of one allocation."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._moves: dict[str, str] = {}
        if self._path.exists():
            self._moves = json.loads(self._path.read_text(encoding="utf-8"))

    def announce(self, process: str, move: str) -> None:
        """Write down a move that is about to be made. It is on disk when this returns."""
        if self._moves.get(process) == move:
            return
        self._moves[process] = move
        write_durably(self._path, json.dumps(self._moves).encode(), mode=0o600)

    def has(self, process: str) -> bool:
        """Whether a move of the process was announced."""
        return process in self._moves

    def is_empty(self) -> bool:
        """Whether no move was announced since the processes last ran."""
        return not self._moves

    def clear(self) -> None:
        """Forget all: the processes run again. Idempotent."""
        self._moves = {}
        self._path.unlink(missing_ok=True)
