"""The recipe that the options of `gpupool vm image build` make."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.work.vm_image import build_recipe
from gpupool.model.vm import GIB
from gpupool.vm.image_recipe import ImageRecipe


def make_options(**more: Any) -> argparse.Namespace:
    usual = {"suite": "bookworm", "mirror": None, "include": [], "disk": "4GiB"}
    return argparse.Namespace(**usual | more)


def test_the_usual_recipe_needs_no_option() -> None:
    assert build_recipe(make_options()) == ImageRecipe()


def test_a_directory_is_a_mirror_if_it_has_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadOption, match="no directory dists"):
        build_recipe(make_options(mirror="copy"))
    (tmp_path / "copy/dists").mkdir(parents=True)
    assert build_recipe(make_options(mirror="copy")).mirror == str(tmp_path / "copy")
    address = "https://mirror.example/debian"
    assert build_recipe(make_options(mirror=address)).mirror == address


def test_more_packages_and_a_larger_disk_are_taken() -> None:
    recipe = build_recipe(make_options(include=["git", "g++"], disk="16GiB", suite="trixie"))
    assert recipe == ImageRecipe("trixie", None, ("git", "g++"), 16 * GIB)


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "--hook=reboot"},
        {"include": ["git,curl"]},
        {"include": ["-o"]},
        {"disk": "1GiB"},
        {"disk": "3TiB"},
    ],
)
def test_what_is_no_name_or_no_size_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadOption):
        build_recipe(make_options(**change))
