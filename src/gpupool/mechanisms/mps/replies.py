"""Reads what `nvidia-cuda-mps-control` answers. Pure.

The texts of protocol 2 were recorded from version 535.261.03, which exits with 0 for an unknown
command and for a server that is not there. So only the text counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ReplyKind(StrEnum):
    """What an answer says."""

    VALUE = "value"
    #: Nothing was printed: a setter that succeeded, or a list without entries.
    EMPTY = "empty"
    #: No daemon listens in the pipe directory.
    NO_DAEMON = "no daemon"
    #: The daemon has no such server.
    NO_SERVER = "no server"
    UNKNOWN_COMMAND = "unknown command"
    #: No answer in time: the daemon is stopped or hangs.
    TIMEOUT = "timeout"
    FAILURE = "failure"


@dataclass(frozen=True)
class ControlReply:
    """One answer of the daemon."""

    kind: ReplyKind
    text: str = ""

    @property
    def is_success(self) -> bool:
        return self.kind in (ReplyKind.VALUE, ReplyKind.EMPTY)


#: Words by which an answer is told, in lower case, the first that matches.
_WORDS: Final = (
    ("cannot find mps control daemon", ReplyKind.NO_DAEMON),
    ("unknown command", ReplyKind.UNKNOWN_COMMAND),
    ("server not found", ReplyKind.NO_SERVER),
    ("failed", ReplyKind.FAILURE),
    ("error", ReplyKind.FAILURE),
    ("invalid", ReplyKind.FAILURE),
    ("not found", ReplyKind.FAILURE),
    ("was not found on this host", ReplyKind.FAILURE),
)


def classify_reply(text: str) -> ControlReply:
    """Return what an answer says.

    >>> classify_reply("Server 17 not found").kind
    <ReplyKind.NO_SERVER: 'no server'>
    >>> classify_reply("100.0").kind
    <ReplyKind.VALUE: 'value'>
    """
    text = text.strip()
    if not text:
        return ControlReply(ReplyKind.EMPTY)
    words = text.lower().split()
    if len(words) == 4 and words[0] == "server" and words[2:] == ["not", "found"]:
        return ControlReply(ReplyKind.NO_SERVER, text)
    for phrase, kind in _WORDS:
        if phrase in text.lower():
            return ControlReply(kind, text)
    return ControlReply(ReplyKind.VALUE, text)


def parse_pids(reply: ControlReply) -> tuple[int, ...]:
    """Return the process ids of a list, one a line; none where the answer is no list."""
    if reply.kind is not ReplyKind.VALUE:
        return ()
    return tuple(int(line) for line in reply.text.split() if line.isdigit())


def parse_rows(reply: ControlReply) -> tuple[tuple[str, ...], ...]:
    """Return the rows of `--format=csv,noheader`; none where the answer is no list."""
    if reply.kind is not ReplyKind.VALUE:
        return ()
    return tuple(tuple(line.split(",")) for line in reply.text.splitlines() if "," in line)


def is_same_number(text: str, wanted: float) -> bool:
    """Whether an answer is a number that differs by less than the daemon's rounding (0.1)."""
    try:
        return abs(float(text.rstrip("%")) - wanted) < 0.1
    except ValueError:
        return False
