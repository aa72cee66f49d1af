"""Clears the record of field managers (`metadata.managedFields`) that no client uses.

The record names the writer of each field. It is cleared only if `PoolSettings` has
`forgetFieldManagers`: keeping it is a third of the cost of a write for the API server, of this
write and of every later one. An object that was applied server-side keeps it, because it decides
what may be applied. Once cleared, other writes do not begin it anew (Kubernetes, "Server-Side
Apply: clearing managedFields"). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Value of `managedFields` in a write that clears the record.
FORGOTTEN: list[dict[str, Any]] = [{}]


def is_unused(meta: Mapping[str, Any]) -> bool:
    """Whether there is a record, and no client has applied the object."""
    kept = meta.get("managedFields") or ()
    return bool(kept) and not any(one.get("operation") == "Apply" for one in kept)
