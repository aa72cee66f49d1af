"""The build of an image: what is checked first, and what is left when it fails or is interrupted.

The programs are shell scripts in the place of the real ones; tests/hosts/test_vm_image.py runs those.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpupool.base.errors import VmRejection
from gpupool.vm import image_build
from gpupool.vm.image_build import NEEDED_BYTES, build_image, check_build, remove_store
from gpupool.vm.image_recipe import ImageRecipe
from tests.support.deep_trees import few_frames, make_deep_tree

#: Makes the directory that is its last word, with a boot loader in it.
BOOTSTRAP = """#!/bin/sh
for target; do :; done
mkdir -p "$target/usr/lib/grub/i386-pc" "$target/boot" "$target/etc/cloud/cloud.cfg.d" \\
  "$target/etc/ssh" "$target/etc/default"
printf boot >"$target/usr/lib/grub/i386-pc/boot.img"
echo key >"$target/etc/ssh/ssh_host_ed25519_key"
"""
CHROOT = """#!/bin/sh
root=$1; shift
case $1 in grub-mkimage) printf core >"$root/boot/grub/core.img" ;; esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs that comes before all others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    install(folder, "mmdebstrap", BOOTSTRAP)
    install(folder, "chroot", CHROOT)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}:/usr/sbin:/sbin")
    return folder


def install(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="no qemu-img")
@pytest.mark.skipif(shutil.which("mke2fs", path="/sbin:/usr/sbin") is None, reason="no mke2fs")
def test_the_image_has_the_boot_loader_and_the_files_and_nothing_else_is_left(
    tmp_path: Path, programs: Path
) -> None:
    store = tmp_path / "images"
    steps: list[str] = []
    with build_image(ImageRecipe(disk_bytes=64 << 20), store, steps.append) as image:
        raw = tmp_path / "raw"
        subprocess.run(["qemu-img", "convert", "-O", "raw", image, raw], check=True)
    assert [step[:6] for step in steps] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    data = raw.read_bytes()
    assert (data[:4], data[512:516]) == (b"boot", b"core")
    label = data[(1 << 20) + 1024 + 120 :][:12]
    assert label == b"gpupool-root"
    listed = subprocess.run(
        ["/sbin/debugfs", "-R", "ls /etc/ssh", f"{raw}?offset={1 << 20}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "ssh_host" not in listed.stdout
    assert list(store.iterdir()) == []


def test_a_program_that_fails_leaves_nothing(tmp_path: Path, programs: Path) -> None:
    install(programs, "mmdebstrap", BOOTSTRAP + "exit 3\n")
    with (
        pytest.raises(VmRejection, match="mmdebstrap ended with status 3"),
        build_image(ImageRecipe(), tmp_path / "images", lambda _step: None),
    ):
        raise AssertionError("an image was built of nothing")
    assert list((tmp_path / "images").iterdir()) == []


def test_what_a_killed_build_left_is_removed_and_a_running_one_is_not(
    tmp_path: Path, programs: Path
) -> None:
    install(programs, "mmdebstrap", BOOTSTRAP + "exit 3\n")
    store = tmp_path / "images"
    (store / ".build-killed" / "root").mkdir(parents=True)
    (store / ".build-running").mkdir()
    running = os.open(store / ".build-running", os.O_RDONLY)
    fcntl.flock(running, fcntl.LOCK_EX)
    try:
        with (
            pytest.raises(VmRejection),
            build_image(ImageRecipe(), store, lambda _step: None),
        ):
            raise AssertionError("an image was built of nothing")
        assert [path.name for path in store.iterdir()] == [".build-running"]
    finally:
        os.close(running)


def test_a_deep_tree_of_a_killed_build_is_removed(tmp_path: Path) -> None:
    make_deep_tree(tmp_path / "images")
    (tmp_path / "images" / "d").rename(tmp_path / "images" / ".build-killed")
    with few_frames():
        remove_store(tmp_path / "images")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_build_waits_for_its_program_and_leaves_nothing(
    tmp_path: Path, programs: Path
) -> None:
    # It says that it has begun, and that it has cleaned up; then it ends by itself.
    cleanup = f"trap 'echo cleaned >{tmp_path}/cleaned; exit 1' TERM\n"
    begun = f"echo begun >{tmp_path}/begun\nwhile :; do sleep 0.05; done\n"
    install(programs, "mmdebstrap", BOOTSTRAP + cleanup + begun)
    script = (
        "from pathlib import Path\n"
        "from gpupool.vm.image_build import build_image\n"
        "from gpupool.vm.image_recipe import ImageRecipe\n"
        f"with build_image(ImageRecipe(), Path({str(tmp_path / 'images')!r}), lambda _: None): pass\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # between two looks
    assert list((tmp_path / "images").iterdir())
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert (tmp_path / "cleaned").exists()
    assert list((tmp_path / "images").iterdir()) == []


def test_what_is_still_mounted_is_not_emptied(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(image_build, "_MOUNTS", mounts)
    mounts.write_text("")
    found: list[Path] = []

    def look(_step: str) -> None:
        (folder,) = (tmp_path / "images").iterdir()
        found.append(folder)
        mounts.write_text(f"36 35 0:31 / {folder}/root/proc rw - proc proc rw\n")

    with (
        pytest.raises(VmRejection, match="root/proc is still mounted"),
        build_image(ImageRecipe(), tmp_path / "images", look),
    ):
        raise AssertionError("the build went on")
    assert (found[0] / "root").is_dir()


def test_a_build_is_refused_first_with_the_numbers(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_build.os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        image_build.shutil, "disk_usage", lambda _: SimpleNamespace(free=NEEDED_BYTES - 1)
    )
    with pytest.raises(VmRejection, match="has 4095 MiB free; building an image takes 4096 MiB"):
        check_build(tmp_path / "not" / "there")
    monkeypatch.setattr(image_build, "PROGRAMS", {"gpupool-no-such-program": "that-package"})
    with pytest.raises(VmRejection) as refused:
        check_build(tmp_path)
    assert "apt-get install that-package" in (refused.value.hint or "")
    monkeypatch.setattr(image_build.os, "geteuid", lambda: 1000)
    with pytest.raises(VmRejection, match="built by root"):
        check_build(tmp_path)


def make_store(folder: Path) -> Path:
    store = folder / "images"
    store.mkdir()
    for name in (f"{'a' * 64}.json", f"{'a' * 64}.qcow2", ".import-77"):
        (store / name).write_text("x")
    return store


def test_a_store_is_removed_with_its_images(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (store / f"{image_build.PREFIX}old").mkdir()
    remove_store(store)
    assert not store.exists()


def test_a_store_keeps_the_files_of_others(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (store / "holiday.jpg").write_text("x")
    remove_store(store)
    assert [path.name for path in store.iterdir()] == ["holiday.jpg"]


def test_a_store_in_which_a_build_runs_is_kept(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    build = store / f"{image_build.PREFIX}now"
    build.mkdir()
    lock = os.open(build, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(VmRejection, match="is being built"):
            remove_store(store)
    finally:
        os.close(lock)
    assert len(list(store.iterdir())) == 4
