"""The key file: what is in it is taken or refused with its line."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gpupool.base.errors import SecretKeyMissing, SecretKeyUnusable
from gpupool.store.secrets.cipher import make_key
from gpupool.store.secrets.key_file import KeyFile, parse_keys


def test_keys_are_read_as_they_were_written(tmp_path: Path) -> None:
    keys = [make_key(), make_key()]
    file = KeyFile(tmp_path / "new" / "secret.key")
    file.replace(keys)
    assert list(file.read()) == keys
    assert list(file.read_or_make()) == keys
    assert "material" not in repr(keys)


def test_comments_and_empty_lines_are_skipped() -> None:
    line = base64.b64encode(bytes(32)).decode()
    assert len(parse_keys(f"# comment\n\n{line}\n", "k")) == 1


@pytest.mark.parametrize("text", ["", "# none\n", "not base64!\n", "c2hvcnQ=\n"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(SecretKeyUnusable) as refused:
        parse_keys(text, "/x/secret.key")
    assert "/x/secret.key" in refused.value.message


def test_a_file_that_is_missing_or_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretKeyMissing, match=r"missing\.key"):
        KeyFile(tmp_path / "missing.key").read()
    (tmp_path / "file").write_text("")
    with pytest.raises(SecretKeyUnusable, match="cannot be written"):
        KeyFile(tmp_path / "file" / "secret.key").read_or_make()
