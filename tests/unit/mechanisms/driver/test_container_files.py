"""What of a driver a container gets to see. A real driver's place is played by the simulated one in
a folder."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpupool.mechanisms.driver.container_files import FOLDERS, list_control_nodes, list_mounts
from gpupool.mechanisms.driver.driver_files import (
    DriverLibraries,
    find_simulated_libraries,
    find_templates,
)
from gpupool.mechanisms.driver.installed_driver import (
    CUDA,
    NVML,
    DriverFiles,
    find_installed_driver,
)

pytestmark = pytest.mark.skipif(
    find_templates() is None or find_simulated_libraries() is None,
    reason="gpupool-native is installed without its fence",
)
PLACE = "usr/lib/x86_64-linux-gnu"
VERSION = "555.42"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host's root with a driver as distributions lay it out, seen from a container."""
    source, folder = find_simulated_libraries(), tmp_path / "host" / PLACE
    assert source is not None
    folder.mkdir(parents=True)
    for name in (CUDA, NVML):
        real = f"{name.removesuffix('.1')}.{VERSION}"
        shutil.copy(source / name, folder / real)
        (folder / name).symlink_to(real)
    for name in (
        f"libnvidia-ptxjitcompiler.so.{VERSION}",
        "libnvidia-nvvm.so.470.1",
        f"libnvidia-glcore.so.{VERSION}",
    ):
        (folder / name).write_bytes(b"\x7fELF")
    (folder / "libnvidia-ptxjitcompiler.so.1").symlink_to(f"libnvidia-ptxjitcompiler.so.{VERSION}")
    (tmp_path / "host/usr/bin").mkdir()
    (tmp_path / "host/usr/bin/nvidia-smi").write_text("")
    return tmp_path / "host"


def shown(root: Path, state: Path, *, fenced: bool) -> dict[str, str]:
    driver = find_installed_driver([f"/{PLACE}"], Path("/etc/ld.so.cache"), root)
    libraries = DriverLibraries(state, "/run/gpupool", driver, None)
    found = list_mounts(libraries, driver, fenced=fenced, host=root, root=root)
    assert not any(mount.writable for mount in found)
    return {mount.target: str(mount.source) for mount in found}


def test_a_whole_card_comes_with_the_drivers_own_files_as_the_host_names_them(
    root: Path, tmp_path: Path
) -> None:
    jit = "libnvidia-ptxjitcompiler.so"
    found = {
        CUDA: f"libcuda.so.{VERSION}",
        NVML: f"libnvidia-ml.so.{VERSION}",
        f"{jit}.1": f"{jit}.{VERSION}",
        f"{jit}.{VERSION}": f"{jit}.{VERSION}",
    }
    wanted = {
        f"{folder}/{name}": f"/{PLACE}/{real}" for name, real in found.items() for folder in FOLDERS
    }
    assert shown(root, tmp_path, fenced=False) == {
        **wanted,
        "/usr/bin/nvidia-smi": "/usr/bin/nvidia-smi",
    }


def test_a_share_finds_the_stand_ins_under_the_drivers_names_and_they_find_the_driver(
    root: Path, tmp_path: Path
) -> None:
    found = shown(root, tmp_path, fenced=True)
    made = next((tmp_path / "fence").iterdir())
    for folder in FOLDERS:
        assert found[f"{folder}/{CUDA}"] == str(made / "lib" / CUDA)
        assert found[f"{folder}/{NVML}"] == str(made / "lib" / NVML)
        assert found[f"{folder}/libnvidia-ptxjitcompiler.so.1"].endswith(VERSION)
    assert found[f"/run/gpupool/driver/{CUDA}"] == f"/{PLACE}/libcuda.so.{VERSION}"
    assert found["/run/gpupool/driver"] == str(made / "driver")


def test_simulated_cards_bring_their_own_driver_and_nothing_of_the_hosts(tmp_path: Path) -> None:
    libraries = DriverLibraries(
        tmp_path, "/run/gpupool", DriverFiles({}), find_simulated_libraries()
    )
    bare = {
        mount.target: mount.source
        for mount in list_mounts(libraries, DriverFiles({}), fenced=False)
    }
    fenced = {
        mount.target: mount.source for mount in list_mounts(libraries, DriverFiles({}), fenced=True)
    }
    for folder in FOLDERS:
        assert bare[f"{folder}/{CUDA}"] == libraries.root / "driver" / CUDA
        assert fenced[f"{folder}/{CUDA}"] == libraries.root / "lib" / CUDA
        assert f"{folder}/libcudart.so.12" in bare.keys() & fenced.keys()
    assert fenced[str(libraries.root / "driver")] == libraries.root / "driver"


MULTIARCH = f"{platform.machine()}-linux-gnu"
DEBIAN = (f"/lib/{MULTIARCH}", f"/usr/lib/{MULTIARCH}", "/lib", "/usr/lib")
RED_HAT = ("/lib64", "/usr/lib64")
MERGED = {"lib": "usr/lib", "lib64": "usr/lib64"}


@pytest.mark.parametrize(
    ("links", "folders", "searched"),
    [
        (MERGED, (f"usr/lib/{MULTIARCH}", "usr/lib64"), DEBIAN),
        ({}, (f"lib/{MULTIARCH}", f"usr/lib/{MULTIARCH}", "lib64"), DEBIAN),
        (MERGED, ("usr/lib", "usr/lib64"), RED_HAT),
        (
            {"lib": "usr/lib", "lib64": "usr/lib", "usr/lib64": "lib"},
            ("usr/lib",),
            ("/usr/lib", "/lib"),
        ),
    ],
    ids=["Debian, Ubuntu", "Debian 10, Ubuntu 18.04", "UBI, Fedora", "one folder for everything"],
)
@pytest.mark.parametrize("fenced", [False, True], ids=["whole", "share"])
def test_the_loader_of_each_layout_finds_them_where_it_looks_by_itself(
    tmp_path: Path,
    root: Path,
    links: dict[str, str],
    folders: Sequence[str],
    searched: Sequence[str],
    fenced: bool,
) -> None:
    """`searched` is what a loader was built with: `ld.so --help` of each says it. As a runtime does
    it, what is mounted is there below whatever its folder is a link to, and folders that an image
    lacks are made.
    """
    image = tmp_path / "image"
    for folder in folders:
        (image / folder).mkdir(parents=True)
    for name, target in links.items():
        (image / name).symlink_to(target)
    own = image / searched[0].lstrip("/") / "libc.so.6"
    own.write_text("the image's own")
    mounts = {
        target: source
        for target, source in shown(root, tmp_path, fenced=fenced).items()
        if ".so." in target
    }
    for target, source in mounts.items():
        place = image / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(source)
    for name in (CUDA, NVML, "libnvidia-ptxjitcompiler.so.1"):
        found = [image / folder.lstrip("/") / name for folder in searched]
        first = next(path for path in found if path.is_file())
        assert first.read_text() == mounts[f"{FOLDERS[0]}/{name}"]
    assert own.read_text() == "the image's own"


def test_the_nodes_of_all_cards_are_those_that_are_there(tmp_path: Path) -> None:
    assert list_control_nodes(tmp_path) == ()
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    assert list_control_nodes(tmp_path) == ("/dev/nvidiactl",)
