"""Who wrote which field of an object (`metadata.managedFields`), and that nobody asks.

The record says who changed what, and is cleared only where `PoolSettings` has `forgetFieldManagers`: keeping it is a
third of what a write costs the API server, at this one and at every later one. Of an object that was applied
server-side it stays in any case, since it decides what may be applied; once cleared it is not begun anew by other
writes (Kubernetes, "Server-Side Apply: clearing managedFields"). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORGOTTEN: list[dict[str, Any]] = [{}]
"""As the value of `managedFields` in a write: there is none from then on."""


def is_useless(meta: Mapping[str, Any]) -> bool:
    """Whether there is a record, and nobody has applied the object."""
    kept = meta.get("managedFields") or ()
    return bool(kept) and not any(one.get("operation") == "Apply" for one in kept)
