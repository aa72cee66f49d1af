"""Break Chinese text into lines: by the width of signs, between any two Chinese signs."""

from __future__ import annotations

import re

from gpupool.terminal.output import measure_width

#: A Latin word with the signs that belong to it, one other sign, or blanks.
_PIECE = re.compile(r"[!-~…×µ–]+|\s+|.", re.DOTALL)
#: No line begins with one of these, and none ends with one of the others (GB/T 15834).
_CLOSING = frozenset("，。；：、！？）”’》」")
_OPENING = frozenset("（“‘《「")


def wrap_signs(text: str, width: int) -> list[str]:
    """Return the lines of a text, none wider than `width` columns unless one word is."""
    lines: list[str] = []
    line = ""
    for piece in _join_signs(_PIECE.findall(text)):
        if measure_width((line + piece).rstrip()) > width and line.strip():
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
    return [*lines, line.rstrip()] if line.strip() else lines


def _join_signs(pieces: list[str]) -> list[str]:
    """Join punctuation to the piece that it may not be parted from."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (piece in _CLOSING or joined[-1][-1] in _OPENING):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined
