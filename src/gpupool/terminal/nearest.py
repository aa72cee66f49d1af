"""Find the word that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find_nearest(typed: str, known: Iterable[str]) -> str | None:
    """Return the known word that looks most like the typed one; None when none does."""
    words = sorted(known)
    # A beginning says more than likeness: `reser` is `reservation` and not `restart`. One letter
    # says nothing.
    begins = [word for word in words if word.startswith(typed)]
    if len(typed) > 1 and len(begins) == 1:
        return begins[0]
    # 0.6 is difflib's own default: "stauts" finds "status", "xyzzy" finds nothing.
    found = difflib.get_close_matches(typed, words, n=1, cutoff=0.6)
    return found[0] if found else None
