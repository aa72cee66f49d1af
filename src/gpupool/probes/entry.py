"""One object of a machine file, read key by key: every value has a type, and a refusal names the place.

Knows JSON's types and nothing of machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.base.errors import BadMachine

_MOST = 2**53  # beyond it JSON readers disagree about numbers
_MOST_MIB = 2**40  # an exbibyte: bytes still fit 64 bits


class Entry:
    """An object whose keys are all among `known`; `where` names it in refusals. Getters give None for null."""

    def __init__(self, value: object, where: str, known: frozenset[str] | None = None) -> None:
        if not isinstance(value, Mapping):
            raise BadMachine(f"{where} must be an object with keys, not {_kind(value)}")
        strangers = sorted(set(value) - known) if known is not None else []
        if known is not None and strangers:
            hint = f"Known keys: {', '.join(sorted(known))}"
            raise BadMachine(f"{where} has an unknown key {strangers[0]!r}", hint=hint)
        self.where = where
        self._value: Mapping[str, Any] = value

    def items(self) -> Iterator[tuple[str, Any]]:
        return iter(self._value.items())

    def text(self, key: str) -> str | None:
        value = self._value.get(key)
        if value is not None and not isinstance(value, str):
            raise BadMachine(f'"{key}" of {self.where} must be a text, not {value!r}')
        return value

    def flag(self, key: str) -> bool | None:
        value = self._value.get(key)
        if value is not None and not isinstance(value, bool):
            raise BadMachine(f'"{key}" of {self.where} must be true or false, not {value!r}')
        return value

    def integer(self, key: str, least: int = 1) -> int | None:
        value = self._value.get(key)
        return None if value is None else whole(value, f'"{key}" of {self.where}', least)

    def mib(self, key: str) -> int | None:
        """A number of MiB, as bytes."""
        value = self._value.get(key)
        return None if value is None else whole(value, f'"{key}" of {self.where}', 1, _MOST_MIB) << 20

    def sequence(self, key: str) -> list[Any]:
        """The list, or an empty one where the key is missing."""
        value = self._value.get(key, [])
        if not isinstance(value, list):
            raise BadMachine(f'"{key}" of {self.where} must be a list, not {_kind(value)}')
        return value

    def entry(self, key: str) -> Entry:
        """The object below `key`, or an empty one where it is missing."""
        return Entry(self._value.get(key, {}), f'"{key}" of {self.where}')

    def has(self, key: str) -> bool:
        return self._value.get(key) is not None


def whole(value: object, what: str, least: int, most: int = _MOST) -> int:
    """The value as an integer within limits; true and 1.0 are none."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadMachine(f"{what} must be a whole number of at least {least} (and at most {most}), not {value!r}")
    return value


def _kind(value: object) -> str:
    return {list: "a list", str: "a text", type(None): "null"}.get(type(value), repr(value))
