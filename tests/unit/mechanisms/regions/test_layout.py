"""The layouts of a fenced allocation's files, compared with what a C compiler makes of them."""

import ctypes
import subprocess
from pathlib import Path

from gpupool.mechanisms import regions
from gpupool.mechanisms.regions import (
    CGrant,
    CGrants,
    CLimits,
    CSlot,
    CUsageHead,
)

HEADER = Path(__file__).parents[4] / "native/include"
PAIRS = {
    "fence_header": regions.RegionHeader,
    "fence_device_limit": regions.CDeviceLimit,
    "fence_limits": CLimits,
    "fence_grant": CGrant,
    "fence_grants": CGrants,
    "fence_slot_device": regions.CSlotDevice,
    "fence_slot": CSlot,
    "fence_usage_device": regions.CUsageDevice,
    "fence_usage": CUsageHead,
}


def c_says(tmp_path: Path) -> dict[str, int]:
    """Every offset and size, as the C compiler sees them."""
    lines = [
        f'printf("{name}.{field[0]} %zu\\n", offsetof(struct {name}, {field[0]}));'
        for name, known in PAIRS.items()
        for field in known._fields_
    ]
    lines += [
        f'printf("{name} %zu\\n", sizeof(struct {name}));' for name in [*PAIRS, "fence_timelines"]
    ]
    constants = (
        "LAYOUT",
        "LIMITS_MAGIC",
        "GRANTS_MAGIC",
        "USAGE_MAGIC",
        "MAX_DEVICES",
        "MAX_SLOTS",
    )
    constants += (
        "OWNER_REAPING",
        "SLOT_FOREIGN_DRIVER",
        "FINE_WORDS",
        "COARSE_WORDS",
        "TIMELINES_AT",
    )
    lines += [f'printf("{name} %llu\\n", (unsigned long long)FENCE_{name});' for name in constants]
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stdio.h>\n#include <stddef.h>\n#include <gpupool/region.h>\nint main(void)\n{\n"
        + "\n".join(lines)
        + "\nreturn 0;\n}\n"
    )
    subprocess.run(
        ["cc", "-std=gnu11", f"-I{HEADER}", "-o", tmp_path / "layout", source], check=True
    )
    said = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout
    return {name: int(number) for name, number in (line.split() for line in said.splitlines())}


def test_every_offset_and_constant_is_what_the_header_says(tmp_path: Path) -> None:
    said = c_says(tmp_path)
    ours = {
        f"{name}.{field[0]}": getattr(known, field[0]).offset
        for name, known in PAIRS.items()
        for field in known._fields_
    }
    ours |= {name: ctypes.sizeof(known) for name, known in PAIRS.items()}
    ours["fence_usage"] = regions.USAGE_BYTES
    ours["fence_timelines"] = regions.TIMELINES_BYTES
    ours |= {name: getattr(regions, name) for name in said if name.isupper()}
    assert ours == said
