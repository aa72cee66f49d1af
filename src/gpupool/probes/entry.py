"""Reads one object of a machine file key by key, and names the place in each refusal.

Knows JSON's types and nothing of machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.base.errors import BadMachine

#: Beyond it JSON readers disagree about numbers.
_MOST = 2**53
#: An exbibyte in MiB: as bytes it still fits 64 bits.
_MOST_MIB = 2**40


class MachineEntry:
    """An object of a machine file. Its methods return None for null or a missing key.

    Args:
        where: name of the object in refusals.
        known: all keys that it may have; None allows any.
    """

    def __init__(self, value: object, where: str, known: frozenset[str] | None = None) -> None:
        if not isinstance(value, Mapping):
            raise BadMachine(f"{where} must be an object with keys, not {_describe_kind(value)}")
        strangers = sorted(set(value) - known) if known is not None else []
        if known is not None and strangers:
            hint = f"Known keys: {', '.join(sorted(known))}"
            raise BadMachine(f"{where} has an unknown key {strangers[0]!r}", hint=hint)
        self.where = where
        self._value: Mapping[str, Any] = value

    def iterate_items(self) -> Iterator[tuple[str, Any]]:
        return iter(self._value.items())

    def read_text(self, key: str) -> str | None:
        value = self._value.get(key)
        if value is not None and not isinstance(value, str):
            raise BadMachine(f'"{key}" of {self.where} must be a text, not {value!r}')
        return value

    def read_flag(self, key: str) -> bool | None:
        value = self._value.get(key)
        if value is not None and not isinstance(value, bool):
            raise BadMachine(f'"{key}" of {self.where} must be true or false, not {value!r}')
        return value

    def read_integer(self, key: str, least: int = 1) -> int | None:
        value = self._value.get(key)
        return None if value is None else check_whole(value, f'"{key}" of {self.where}', least)

    def read_mib(self, key: str) -> int | None:
        """Read a number of MiB and return bytes."""
        value = self._value.get(key)
        return (
            None
            if value is None
            else check_whole(value, f'"{key}" of {self.where}', 1, _MOST_MIB) << 20
        )

    def read_list(self, key: str) -> list[Any]:
        """Return the list, an empty one where the key is missing."""
        value = self._value.get(key, [])
        if not isinstance(value, list):
            raise BadMachine(f'"{key}" of {self.where} must be a list, not {_describe_kind(value)}')
        return value

    def read_entry(self, key: str) -> MachineEntry:
        """Return the object below `key`, an empty one where it is missing."""
        return MachineEntry(self._value.get(key, {}), f'"{key}" of {self.where}')

    def has_key(self, key: str) -> bool:
        return self._value.get(key) is not None


def check_whole(value: object, what: str, least: int, most: int = _MOST) -> int:
    """Return the value if it is an integer within limits, else raise BadMachine."""
    # `True` is an int in Python, but no number in a machine file.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadMachine(
            f"{what} must be a whole number of at least {least} (and at most {most}), not {value!r}"
        )
    return value


def _describe_kind(value: object) -> str:
    return {list: "a list", str: "a text", type(None): "null"}.get(type(value), repr(value))
