"""Lists the processes that hold memory of a graphics card, from their open files.

The kernel prints for each open file of a graphics device how much memory its client has
(https://docs.kernel.org/gpu/drm-usage-stats.html). It needs no tool of the maker. A process whose
files this one may not read is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gpupool.probes.common.sysfs import read_text

#: Graphics devices are below it.
DEVICE_FOLDER: Final = "/dev/dri/"
#: Keys of a client's memory on the card, the most exact first: what all drivers print now, then what
#: amdgpu printed before Linux 6.13. Regions: vram0, vram1 (xe, one a tile), vram (amdgpu), local0
#: (i915).
MEMORY_KEYS: Final = ("drm-resident-", "drm-total-", "drm-memory-")
REGIONS: Final = ("vram", "local")
_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


class DrmClients:
    """The clients of all graphics cards, read once."""

    def __init__(self, proc_root: Path = Path("/proc")) -> None:
        self._proc = proc_root

    def sum_memory(self) -> Mapping[str, Mapping[int, int]]:
        """Return bytes of memory on the card by PCI address and pid.

        A file that several processes share counts for each of them.
        """
        used: dict[str, dict[int, int]] = {}
        for pid, address, memory_bytes in self._iterate_clients():
            pids = used.setdefault(address, {})
            pids[pid] = pids.get(pid, 0) + memory_bytes
        return used

    def _iterate_clients(self) -> Iterator[tuple[int, str, int]]:
        """Yield pid, PCI address and bytes of each client."""
        for entry in self._proc.iterdir():
            if not entry.name.isdigit():
                continue
            seen = set()
            for fields in _iterate_descriptions(entry):
                address = fields.get("drm-pdev")
                client = (address, fields.get("drm-client-id"))
                # Descriptors that were duplicated describe one client.
                if address is None or client in seen:
                    continue
                seen.add(client)
                yield int(entry.name), address, read_client_memory(fields)


def read_client_memory(fields: Mapping[str, str]) -> int:
    """Return the bytes that a client has on the card; 0 where the driver does not say.

    >>> read_client_memory({"drm-total-vram0": "2 MiB", "drm-total-system": "9 MiB"})
    2097152
    """
    for prefix in MEMORY_KEYS:
        sizes = []
        for key, value in fields.items():
            if key.startswith(prefix) and key.removeprefix(prefix).startswith(REGIONS):
                sizes.append(_parse_size(value))
        if sizes:
            return sum(sizes)
    return 0


def _parse_size(text: str) -> int:
    number, _, unit = text.partition(" ")
    return int(number) * _UNITS.get(unit.strip(), 1) if number.isdigit() else 0


def _iterate_descriptions(process: Path) -> Iterator[Mapping[str, str]]:
    """Yield what the kernel prints of each graphics file that a process has open."""
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return  # it has ended, or belongs to another user
    for descriptor in descriptors:
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if not target.startswith(DEVICE_FOLDER):
            continue
        text = read_text(process / "fdinfo" / descriptor.name) or ""
        fields = {}
        for line in text.splitlines():
            key, _, value = line.partition(":")
            fields[key.strip()] = value.strip()
        yield fields
