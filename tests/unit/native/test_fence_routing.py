"""Every symbol by every way in: the stand-in has what it handles, the driver everything else, under
the exact name.

The stand-in is the one that is shipped, filled in for a dummy driver that exports every symbol of
the headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import gpupool_native
from gpupool.mechanisms.driver.standin import make_standin
from tests.unit.native.fence_build import (
    LIBRARIES,
    SONAMES,
    Headers,
    Routes,
    StandIn,
    build_dummy,
    build_probe,
    shared,
)
from tests.unit.native.fence_runtime import RUNTIMES, start_runtime, wrong_answers

WAYS = ("link", "dlsym", "default", "next", "client", "lazy")
APART = ("deepbind", "deepbind-client", "dlmopen", "dlmopen-client")
LEGACY, PER_THREAD = 1, 2
NEWEST = 13050


def make(headers: Headers, side: str, folder: Path) -> None:
    driver = build_dummy(folder / "real", headers.lists[LIBRARIES[side]], SONAMES[side])
    library = folder / "fence" / SONAMES[side]
    make_standin(
        gpupool_native.fence_dir() / SONAMES[side], driver, str(folder / "no-share"), library
    )
    build_probe(folder, StandIn(side, library, driver), headers.lists[LIBRARIES[side]])


def routes_of(side: str, headers: Headers, factory: pytest.TempPathFactory) -> Routes:
    folder = shared(factory, f"fence-routes-{side}", lambda into: make(headers, side, into))
    driver = folder / "real" / f"{SONAMES[side]}.real"
    return Routes(
        StandIn(side, folder / "fence" / SONAMES[side], driver), folder, headers.rows(side)
    )


@pytest.fixture(scope="session")
def routes(headers: Headers, tmp_path_factory: pytest.TempPathFactory) -> Routes:
    return routes_of("driver", headers, tmp_path_factory)


@pytest.fixture(scope="session", params=("driver", "nvml"))
def either(
    request: pytest.FixtureRequest, headers: Headers, tmp_path_factory: pytest.TempPathFactory
) -> Routes:
    return routes_of(request.param, headers, tmp_path_factory)


@pytest.mark.parametrize("way", WAYS + APART)
def test_a_name_leads_to_the_stand_in_where_it_is_handled_and_to_the_driver_where_not(
    way: str, either: Routes
) -> None:
    names = [row.symbol.name for row in either.rows]
    assert either.probe(way, names) == [either.expected(name) for name in names]


def test_a_name_that_no_driver_has_leads_nowhere(either: Routes) -> None:
    for way in ("dlsym", "dlvsym", "default", "next", "deepbind", "dlmopen"):
        assert either.probe(way, ["cuNoSuchThing", "nvmlNoSuchThing"]) == [
            ("cuNoSuchThing", "-", "-"),
            ("nvmlNoSuchThing", "-", "-"),
        ]


def test_a_version_finds_what_it_finds_with_the_driver_alone(either: Routes) -> None:
    """The driver's names have no versions, so none is found by one (dlvsym), and the stand-in must
    not change that."""
    names = [row.symbol.name for row in either.rows]
    assert (
        either.probe("dlvsym", names)
        == either.probe("dlvsym", names, alone=True)
        == [(n, "-", "-") for n in names]
    )


def lookups(rows: Sequence[Any]) -> Iterator[tuple[str, int, int]]:
    """Every base name at every version at which its answer can change, the one before it, and the
    newest."""
    born: dict[str, set[int]] = {}
    for row in rows:
        born.setdefault(row.symbol.base, set()).add(row.symbol.born)
    for base, versions in sorted(born.items()):
        for version in sorted(versions | {version - 1 for version in versions} | {NEWEST}):
            for flags in (0, LEGACY, PER_THREAD):
                yield base, version, flags


def answer(rows: Sequence[Any], base: str, version: int, flags: int) -> str | None:
    """What a driver means by a look-up: the newest form the version knows, a twin only where the
    flags ask for it."""
    known = [row.symbol for row in rows if row.symbol.base == base and row.symbol.born <= version]
    fitting = [symbol for symbol in known if flags & PER_THREAD or not symbol.twin]
    best = max(fitting, key=lambda symbol: (symbol.form, bool(symbol.twin)), default=None)
    return best and best.name


def test_a_look_up_by_name_and_version_gives_ours_of_the_form_the_driver_means(
    routes: Routes,
) -> None:
    asked = list(lookups(routes.rows))
    assert len(asked) > 3000
    found = routes.probe("lookup", [" ".join(map(str, each)) for each in asked])
    expected = []
    for base, version, flags in asked:
        name = answer(routes.rows, base, version, flags)
        said = (base, *routes.expected(name)[1:]) if name else (base, "-", "-")
        expected += [said, said]  # cuGetProcAddress and cuGetProcAddress_v2
    assert found == expected


def test_odd_look_ups_get_the_driver_s_refusal(routes: Routes) -> None:
    """The vendor's runtime asks for names that no header has, and first of all for none at all."""
    asked = [
        "cuSubgridCreate 13030 0",
        "cuMemAlloc 0 0",
        "cuMemAlloc -1 2",
        "cuGLMapBufferObjectAsyncc 13050 7",
    ]
    assert {each[1:] for each in routes.probe("lookup", asked)} == {("-", "-")}


@pytest.mark.parametrize(("package", "library", "least"), RUNTIMES)
def test_every_look_up_of_the_vendor_s_runtime_gives_ours_or_the_driver_s_own(
    package: str, library: str, least: int, routes: Routes, tmp_path: Path
) -> None:
    """No share lies at this stand-in's base, so it refuses; what a runtime looks up it has looked
    up by then."""
    seen = start_runtime(tmp_path, package, library, routes.stand_in)
    handled = {row.symbol.name for row in routes.rows if row.handled}
    assert wrong_answers(seen.lookups, handled, routes.stand_in) == []
    assert len(seen.lookups) >= least
    assert sum(look_up.symbol in handled for look_up in seen.lookups) > 80
    assert seen.result != 0
