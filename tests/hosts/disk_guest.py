"""A guest that writes to its disk all the time, and the check that nothing that it wrote is lost.

The guest is a boot sector of 160 bytes without an operating system. It keeps a counter in sector 1.
Once a clock tick it adds one, writes the counter into one of 64 places, each in a cluster of its own,
then into sector 1, and then prints it. So every number in the log was written before, and the disk
shows how far the guest came, over all starts of its virtual machine.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

#: Real mode: read sector 1 (int 0x13, 0x42); add 1; write it at ((n & 63) + 1) * 128 and at 1 (0x43);
#: print 8 hexadecimal digits on the first serial port; wait for the clock; again. A failed read or
#: write prints `!` and halts.
_CODE = bytes.fromhex(
    "31c08ed88ec08ed0bc007cfcfb8816ff7fbe907cb442cd13726e66ff06008066a100806683e03f664066c1e00766a3"
    "987ce8360066c706987c01000000e82a00668b1e0080b9080066c1c30488d8240f04303c3976020407e81e00e2ebb0"
    "0de81700b00ae81200f4ebb0be907cb800438a16ff7fcd137210c350bafd03eca82074fb58baf803eec3b021e8ecff"
    "f4ebfd10000100008000000100000000000000"
)
DISK_BYTES = 8 << 20
SECTOR = 512
PLACES = 64
_SPACING = 128 * SECTOR
_NUMBER = re.compile(rb"^([0-9A-F]{8})\r?$", re.MULTILINE)
#: Exit codes of `qemu-img check`: clusters that nothing refers to are a loss of space alone.
_SOUND = 0
_LEAKS = 3


@dataclass(frozen=True)
class DiskState:
    """What a disk shows of its guest's work.

    Attributes:
        problems: Sentences; none of a disk that is intact.
        counter: How far the guest came.
        has_leaks: Whether `qemu-img check` found clusters that nothing refers to.
    """

    problems: tuple[str, ...]
    counter: int
    has_leaks: bool = False


def write_image(path: Path) -> None:
    """Write the image from which such guests start."""
    sector = _CODE.ljust(510, b"\0") + b"\x55\xaa"
    with open(path, "wb") as image:
        image.write(sector)
        image.truncate(DISK_BYTES)


def find_last_number(log: bytes) -> int:
    """Return the last number that a guest printed; 0 where it printed none."""
    numbers = _NUMBER.findall(log)
    return int(numbers[-1], 16) if numbers else 0


def inspect_disk(disk: Path, printed: int) -> DiskState:
    """Check the overlay of a guest that does not run.

    Args:
        disk: The overlay.
        printed: The last number that the guest is known to have printed.
    """
    checked = subprocess.run(
        ["qemu-img", "check", "--output=json", disk], capture_output=True, text=True, check=False
    )
    if checked.returncode not in (_SOUND, _LEAKS):
        return DiskState((f"{disk}: qemu-img check: {checked.returncode} {checked.stderr}",), 0)
    json.loads(checked.stdout)
    with TemporaryDirectory() as folder:
        raw = Path(folder, "raw")
        subprocess.run(["qemu-img", "convert", "-O", "raw", disk, raw], check=True)
        data = raw.read_bytes()
    counter = _read_number(data, SECTOR)
    problems = [f"{disk}: {text}" for text in _find_problems(data, counter, printed)]
    return DiskState(tuple(problems), counter, checked.returncode == _LEAKS)


def _find_problems(data: bytes, counter: int, printed: int) -> list[str]:
    problems: list[str] = []
    if len(data) != DISK_BYTES or data[: len(_CODE)] != _CODE:
        problems.append(f"{len(data)} bytes, and the image's first sector is not what it was")
    if counter < printed:
        problems.append(f"its counter is {counter}, and its guest printed {printed}")
    for place in range(PLACES):
        found = _read_number(data, (place + 1) * _SPACING)
        # The last number of this place, or the next one, whose counter was not written yet.
        last = counter - (counter - place) % PLACES
        allowed = {max(0, last)}
        if (counter + 1) % PLACES == place:
            allowed.add(counter + 1)
        if found not in allowed:
            problems.append(f"place {place} has {found}, expected one of {sorted(allowed)}")
    return problems


def _read_number(data: bytes, offset: int) -> int:
    found: int = struct.unpack_from("<I", data, offset)[0]
    return found
