"""Reads configuration as sets of statements, so that what a switch has can be compared with what it should have. Pure.

A statement is a path of lines: `("router bgp 64601 vrf vrf4001", "address-family l2vpn evpn", "rd 10.255.0.1:4001")`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

Statement = tuple[str, ...]

#: Texts whose statements are remembered: those of the leaves of a few hundred racks. A report is
#: read once and evaluated with each grant.
_REMEMBERED: Final = 512
#: Lines of ifupdown2 that have several values, of which each is a statement.
_LISTS: Final = ("bridge-ports", "bridge-vids")
#: Lines of FRR that end a context and say nothing.
_ENDS: Final = ("exit", "exit-vrf", "exit-address-family", "end", "!")


@lru_cache(maxsize=_REMEMBERED)
def read_router(text: str) -> frozenset[Statement]:
    """Read the configuration of FRR, as a file or as `show running-config` prints it."""
    found = set[Statement]()
    context = list[tuple[int, str]]()
    for line in text.splitlines():
        words = line.strip()
        if not words or words.startswith("!") or words in _ENDS:
            continue
        indent = len(line) - len(line.lstrip(" "))
        while context and context[-1][0] >= indent:
            context.pop()
        found.add((*(one for _, one in context), words))
        context.append((indent, words))
    return frozenset(found)


@lru_cache(maxsize=_REMEMBERED)
def read_interfaces(text: str) -> frozenset[Statement]:
    """Read a file of ifupdown2 (interfaces(5)). Whitespace and comments say nothing."""
    found = set[Statement]()
    stanza = ""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        key = words[0]
        if key == "iface":
            stanza = f"iface {words[1]}" if len(words) > 1 else ""
        elif key in ("auto", "source"):
            stanza = ""
        elif stanza and key in _LISTS:
            found.update((stanza, key, value) for value in words[1:])
        elif stanza:
            found.add((stanza, " ".join(words)))
    return frozenset(found)
