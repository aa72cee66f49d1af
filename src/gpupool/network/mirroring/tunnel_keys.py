"""Numbers of mirrors in the tunnels between machines. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

#: Geneve numbers (VNI) that OVN gives to transit switches between zones alone, which the pool has
#: none of (ovn-util.h, OVN_MIN_DP_KEY_GLOBAL to OVN_MAX_DP_KEY): no network of a tenant has one.
TUNNEL_KEYS: Final = range(0xFF0000 + 1, 0x1000000)


def find_tunnel_key(mirror: str) -> int:
    """Return the number of a mirror by its id. Two ids may have the same one."""
    digest = int.from_bytes(sha256(mirror.encode()).digest()[:8])
    return TUNNEL_KEYS[digest % len(TUNNEL_KEYS)]
