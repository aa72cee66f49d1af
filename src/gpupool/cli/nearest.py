"""What was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(typed: str, known: Iterable[str]) -> str | None:
    """The known word that looks most like the typed one; None when none does."""
    words = sorted(known)
    begins = [word for word in words if len(typed) > 1 and word.startswith(typed)]
    if len(begins) == 1:
        return begins[0]
    found = difflib.get_close_matches(typed, words, n=1, cutoff=0.6)
    return found[0] if found else None
