"""An entry of a ledger as one line of text, `uid=... cards=UUID:MILLI:BYTES,... state=...`. Pure.

A card's partition follows as `:PROFILE:START:SIZE`.

The API server decodes, copies, compares and encodes an object field by field, several times a
write, and whatever changed: 40 entries as records take it four times the memory that one text of 40
lines takes (docs/measured). Records are read as well: entries are such until the node's agent says
that it reads lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

Json = Mapping[str, Any]

_NUMBERS = frozenset({"generation", "heldNs", "priority"})
#: What stands for itself; all else is written as in a URL, so that neither blanks nor `=`, `:`
#: and `,` are in it.
_SAFE = re.compile(r"[\w/.@+-]*", re.ASCII)


def format_entry(record: Json) -> str:
    """The line of an entry's record, field by field in its order."""
    return " ".join(f"{name}={_value(name, value)}" for name, value in record.items())


def parse_entry(line: str) -> dict[str, Any]:
    """The record of a line. Raises ValueError where it is none."""
    found: dict[str, Any] = {}
    for part in line.split(" "):
        name, is_, value = part.partition("=")
        if not is_:
            raise ValueError(f"an entry of a ledger has a part without =: {part!r}")
        found[name] = _read(name, value)
    return found


def _value(name: str, value: Any) -> str:
    if name == "cards":
        cards = []
        for one in value:
            card = f"{_word(one['uuid'])}:{one['gpuMilli']}:{one['memoryBytes']}"
            if "profile" in one:
                card += f":{_word(one['profile'])}:{one['start']}:{one['size']}"
            cards.append(card)
        return ",".join(cards)
    return str(value) if name in _NUMBERS else _word(value)


def _word(value: str) -> str:
    return value if _SAFE.fullmatch(value) else quote(value, safe="/")


def _read(name: str, value: str) -> Any:
    if name == "cards":
        return [_card(one) for one in value.split(",")] if value else []
    if name in _NUMBERS:
        return int(value)
    return unquote(value) if "%" in value else value


def _card(text: str) -> dict[str, Any]:
    uuid, milli, memory, *partition = text.split(":")
    found = {"uuid": unquote(uuid), "gpuMilli": int(milli), "memoryBytes": int(memory)}
    if partition:
        profile, start, size = partition
        found |= {"profile": unquote(profile), "start": int(start), "size": int(size)}
    return found
