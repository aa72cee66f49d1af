"""Places of `gpupool cp`."""

from __future__ import annotations

import tarfile

import pytest

from gpupool.base.errors import NotFound, WrongState
from gpupool.cli.workspace.cp import _rename, split_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("train:a/b", ("train", "a/b")),
        ("train:", ("train", "")),
        ("train:/tmp:x", ("train", "/tmp:x")),
        ("a/b:c", (None, "a/b:c")),
        ("./a:b", (None, "./a:b")),
        (":x", (None, ":x")),
        ("file", (None, "file")),
    ],
)
def test_split_place_takes_what_is_before_the_colon_for_a_job(
    text: str, place: tuple[str | None, str]
) -> None:
    assert split_place(text) == place


def test_split_place_of_a_name_that_no_job_has_is_refused() -> None:
    with pytest.raises(NotFound):
        split_place("a b:c")


def test_rename_refuses_what_was_not_asked_for() -> None:
    assert _rename(tarfile.TarInfo("d/x/y"), "d", "e").name == "e/x/y"
    with pytest.raises(WrongState, match="not asked for"):
        _rename(tarfile.TarInfo("../x"), "d", "e")
