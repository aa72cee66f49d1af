"""Asks a daemon of FRR over its socket for commands, as vtysh(1) does."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

#: Seconds in which a daemon has to answer.
_ANSWER_SECONDS: Final = 3.0
#: Three zero bytes and the status end an answer (lib/vty.c of FRR).
_END: Final = 4
#: Status of a command that was carried out, and of one that changed nothing (lib/command.h).
_WELL: Final = (0, 1)
#: Bytes of an answer at most: 5,000 routes have some 2 MB.
_MOST_BYTES: Final = 16 << 20


class SpeakerConsole:
    """A connection to one daemon; use it in a `with` statement. One thread at a time."""

    def __init__(self, path: Path) -> None:
        """Connect. Raises OSError where no daemon answers."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_ANSWER_SECONDS)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self.run("enable")

    def __enter__(self) -> SpeakerConsole:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def run(self, command: str) -> str:
        """Run a command and return what it prints. Raises OSError where it is refused."""
        self._socket.sendall(command.encode() + b"\0")
        answer = bytearray()
        while len(answer) < _END or answer[-_END:-1] != b"\0\0\0":
            part = self._socket.recv(1 << 16)
            if not part or len(answer) > _MOST_BYTES:
                raise OSError("the BGP daemon ended in the middle of an answer")
            answer += part
        text = bytes(answer[:-_END]).decode(errors="replace")
        if answer[-1] not in _WELL:
            # Without the command: it may have the key.
            raise OSError(f"the BGP daemon refuses a command: {text.strip()[:200]}")
        return text

    def run_all(self, commands: Iterable[str]) -> None:
        for command in commands:
            self.run(command)

    def read(self, command: str) -> dict[str, Any]:
        """Run a command that prints an object of JSON. Raises OSError."""
        try:
            found = json.loads(self.run(f"{command} json") or "{}")
        except ValueError as error:
            raise OSError(f"the BGP daemon answers no JSON: {error}") from error
        return found if isinstance(found, dict) else {}
