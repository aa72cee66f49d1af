"""Prepares the fence's stand-in for a driver's library: fills the two placeholders of a copy.

The template is an ELF library with a DT_NEEDED string that no file can have as its name and a base
directory that no host has. A copy for one driver names the driver's file by its absolute path, so
that the loader maps it with the stand-in, and the directory below which the stand-in finds its
job's limits. Both strings have room and keep their place, so no table of the file moves. Knows the
ELF format (elf(5)) and nothing of CUDA.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Begin of the DT_NEEDED placeholder, the base placeholder, and bytes of the latter with its NUL;
#: they must match the fence's build (native/fence).
NEEDED: Final = b"/@GPUPOOL-FENCE-DRIVER@/"
BASE: Final = b"@GPUPOOL-FENCE-BASE@"
BASE_ROOM: Final = 256

# Types of program headers, dynamic entries and sections, and layouts of entries, of elf(5).
_PT_LOAD = 1
_PT_DYNAMIC = 2
_DT_NEEDED = 1
_DT_STRTAB = 5
_DT_SYMTAB = 6
_DT_STRSZ = 10
_DT_SONAME = 14
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SHT_DYNSYM = 11


class NotAStandIn(Exception):
    """The template is not a library of the fence, or a path has no room in it."""


def make_standin(template: Path, driver: Path, base: str, target: Path) -> None:
    """Write a copy of `template` for `driver` to `target` with mode 0644. Atomic and idempotent.

    Args:
        driver: absolute path by which jobs reach the driver's file; it need not exist yet.
        base: absolute job directory.

    Raises:
        NotAStandIn: the template cannot be filled.
        OSError: a file cannot be read or written.
    """
    content = fill_placeholders(template.read_bytes(), os.fsencode(driver), os.fsencode(base))
    # A target that already is that copy stays: a running job has it mapped.
    if _has_content(target, content):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def fill_placeholders(template: bytes, driver: bytes, base: bytes) -> bytes:
    """Return the template's bytes with both placeholders filled in; they need `driver` then."""
    if not driver.startswith(b"/") or not base.startswith(b"/"):
        raise NotAStandIn(
            f"the driver's path and the base directory must be absolute: {driver!r}, {base!r}"
        )
    needed = [name for name in ElfFile(template).list_needed() if name.startswith(NEEDED)]
    if len(needed) != 1:
        raise NotAStandIn(
            "the library needs no placeholder of the fence: it is no template, or was filled in before"
        )
    filled = _replace_placeholder(template, needed[0], len(needed[0]), driver)
    filled = _replace_placeholder(filled, BASE, BASE_ROOM - 1, base)
    if driver not in ElfFile(filled).list_needed():
        raise NotAStandIn("the copy does not name the driver it was made for")
    return filled


def _replace_placeholder(content: bytes, placeholder: bytes, room: int, value: bytes) -> bytes:
    if b"\0" in value or len(value) > room:
        raise NotAStandIn(f"{value!r} has {len(value)} bytes, there is room for {room}")
    ended = placeholder + b"\0"
    at = content.find(ended)
    if at < 0 or content.find(ended, at + 1) >= 0:
        raise NotAStandIn(f"{placeholder[:24]!r} is not in the template once")
    return content[:at] + value.ljust(room, b"\0") + content[at + room :]


def _has_content(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False


def list_unclassified(template: Path, driver: Path) -> tuple[str, ...]:
    """Return public functions that the driver exports and the fence's table lacks, sorted.

    A program may call them without the fence noticing, so a share with such a driver gets a lower
    level and says why.
    """
    side, prefix = ("nvml", "nvml") if "nvidia-ml" in template.name else ("driver", "cu")
    rows = (template.parent / f"{side}.tsv").read_text().splitlines()[1:]
    known = {row.partition("\t")[0] for row in rows}
    exported = ElfFile(driver.read_bytes()).list_exports()
    return tuple(sorted(name for name in exported - known if _is_public(name, prefix)))


def _is_public(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name[len(prefix) : len(prefix) + 1].isupper()


@dataclass(frozen=True)
class ElfFile:
    """A 64-bit little-endian ELF file; raises NotAStandIn for anything else."""

    content: bytes

    def __post_init__(self) -> None:
        if self.content[:6] != b"\x7fELF\x02\x01" or len(self.content) < 64:
            raise NotAStandIn("not a 64-bit little-endian ELF library")

    def list_needed(self) -> list[bytes]:
        """Return the names of DT_NEEDED, in order."""
        entries = list(self._iterate_dynamic())
        strings = self._find_offset(dict(reversed(entries)).get(_DT_STRTAB, 0))
        return [self._read_string(strings + value) for tag, value in entries if tag == _DT_NEEDED]

    def list_exports(self) -> frozenset[str]:
        """Return the names of the functions in .dynsym that the file defines."""
        names = set()
        for name, info, section in self._iterate_symbols():
            # STT_FUNC or STT_GNU_IFUNC, STB_GLOBAL or STB_WEAK, and not undefined (section 0).
            if section and info & 15 in (2, 10) and info >> 4 in (1, 2):
                names.add(self._read_string(name).decode())
        return frozenset(names)

    def _iterate_symbols(self) -> Iterator[tuple[int, int, int]]:
        """Yield (file offset of the name, info, section) of each symbol in .dynsym."""
        (start,) = struct.unpack_from("<Q", self.content, 40)
        size, count = struct.unpack_from("<HH", self.content, 58)
        sections = [self._unpack_at(_SECTION, start + size * number) for number in range(count)]
        for section in sections:
            if section[1] == _SHT_DYNSYM:
                strings = sections[section[6]][4]
                for offset in range(section[4], section[4] + section[5], _SYMBOL.size):
                    name, info, _, where, _, _ = self._unpack_at(_SYMBOL, offset)
                    yield strings + name, info, where

    def _iterate_segments(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (type, file offset, address, bytes in the file) of each program header."""
        (start,) = struct.unpack_from("<Q", self.content, 32)
        size, count = struct.unpack_from("<HH", self.content, 54)
        for number in range(count):
            kind, _, offset, address, _, length, *_ = self._unpack_at(
                struct.Struct("<IIQQQQQQ"), start + size * number
            )
            yield kind, offset, address, length

    def _iterate_dynamic(self) -> Iterator[tuple[int, int]]:
        for kind, offset, _, length in self._iterate_segments():
            if kind == _PT_DYNAMIC:
                for at in range(offset, offset + length, 16):
                    tag, value = self._unpack_at(struct.Struct("<qQ"), at)
                    if tag == 0:
                        return
                    yield tag, value

    def _find_offset(self, address: int) -> int:
        for kind, offset, start, length in self._iterate_segments():
            if kind == _PT_LOAD and start <= address < start + length:
                return offset + address - start
        raise NotAStandIn("the dynamic section points outside of the file")

    def _read_string(self, offset: int) -> bytes:
        end = self.content.find(b"\0", offset)
        if not 0 < offset < len(self.content) or end < 0:
            raise NotAStandIn("a name lies outside of the file")
        return self.content[offset:end]

    def _unpack_at(self, form: struct.Struct, offset: int) -> tuple[int, ...]:
        try:
            return form.unpack_from(self.content, offset)
        except struct.error:
            raise NotAStandIn("the file is cut short") from None
