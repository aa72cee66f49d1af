"""Reads single attributes of sysfs. A file that is missing or unreadable is None, never an error."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str | None:
    """Return the text of an attribute without the white space around it; None where unreadable."""
    # A driver may answer any read with an error: amdgpu says EBUSY while its firmware does not
    # answer, and EPERM for a card in a low power state.
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """Return an attribute such as `0x10de` or `-1`; None where it is missing or no number."""
    text = read_text(path)
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def read_link_name(path: Path) -> str | None:
    """Return the last part of what a link leads to; None where there is no such link."""
    return path.resolve().name if path.is_symlink() and path.exists() else None
