"""Who wrote which field of an object (`metadata.managedFields`), and that nobody asks.

Keeping that record is a third of what a write costs the API server, at this one and at every later one. Where somebody
has applied the object it decides what he may apply, and stays; once forgotten it is not begun anew by other writes
(Kubernetes, "Server-Side Apply: clearing managedFields"). Pure.
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
