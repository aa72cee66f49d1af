"""A stand-in before the simulated libraries: every symbol, and the vendor's runtimes as far as they
come.

They come to their self-test, which asks the driver to prove that it is the vendor's. The simulated
one does not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gpupool_native
from gpupool.mechanisms import regions
from gpupool.mechanisms.driver.standin import make_standin
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from tests.unit.native.fence_build import LIBRARIES, SONAMES, Headers, Routes, StandIn, build_probe
from tests.unit.native.fence_runtime import RUNTIMES, start_runtime, wrong_answers
from tests.unit.native.fence_share import make_share


@pytest.mark.parametrize(("package", "library"), [runtime[:2] for runtime in RUNTIMES])
def test_the_vendor_s_runtime_comes_as_far_under_the_fence_as_without(
    package: str, library: str, headers: Headers, tmp_path: Path
) -> None:
    machine = tmp_path / "machine"
    create_machine(machine, parse_sim("2xT4")[0])
    with SimulatedMachine(machine) as simulated:
        cards = tuple(
            regions.DeviceLimit(card.uuid, 4 << 30, card.memory_bytes) for card in simulated.cards
        )
    share = make_share(
        tmp_path / "share", regions.ShareLimits("allocation", "job", "tenant", "soft", cards)
    )
    driver = gpupool_native.simgpu_dir() / "libcuda.so.1"
    make_standin(
        gpupool_native.fence_dir() / driver.name,
        driver,
        str(share),
        tmp_path / "fence" / driver.name,
    )
    fenced, alone = (
        StandIn("driver", tmp_path / "fence" / driver.name, driver),
        StandIn("driver", driver, driver),
    )

    seen, told = [], []
    for name, in_front in (("fenced", fenced), ("alone", alone)):
        folder = tmp_path / name
        folder.mkdir()
        simulated_log = folder / "driver.log"
        environment = {"GPUPOOL_SIMGPU": str(machine), "GPUPOOL_SIMGPU_LOG": str(simulated_log)}
        seen.append(start_runtime(folder, package, library, in_front, environment))
        told.append(
            [line.partition(" ")[2] for line in simulated_log.read_text().splitlines()]
        )  # without the pid

    assert told[0] == told[1]
    assert "self-test of the vendor's runtime" in told[0][-1]
    assert seen[0].result == seen[1].result != 0
    assert [each.asked for each in seen[0].lookups] == [each.asked for each in seen[1].lookups]
    handled = {row.symbol.name for row in headers.rows("driver") if row.handled}
    assert wrong_answers(seen[0].lookups, handled, fenced) == []
    assert len(seen[0].lookups) > 400


@pytest.mark.parametrize("side", ["driver", "nvml"])
def test_the_simulated_libraries_have_every_symbol_and_the_stand_in_what_it_handles(
    side: str, headers: Headers, tmp_path: Path
) -> None:
    library = gpupool_native.simgpu_dir() / SONAMES[side]
    stand_in = StandIn(side, tmp_path / "fence" / library.name, library)
    make_standin(
        gpupool_native.fence_dir() / library.name,
        library,
        str(tmp_path / "no-share"),
        stand_in.library,
    )
    build_probe(tmp_path, stand_in, headers.lists[LIBRARIES[side]])
    routes = Routes(stand_in, tmp_path, headers.rows(side))
    names = [row.symbol.name for row in routes.rows]
    for way in (
        "link",
        "dlsym",
        "dlmopen-client",
    ):  # a twin may be the plain function, so what it is called there is open
        assert [found[:2] for found in routes.probe(way, names)] == [
            routes.expected(name)[:2] for name in names
        ]
