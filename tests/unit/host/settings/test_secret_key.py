"""Where the key of secrets is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadOption
from gpupool.base.settings import PoolPaths
from gpupool.host.settings.secret_key import NAME, find_key_file

PATHS = PoolPaths(Path("/var/lib/gpupool"))


def test_the_key_is_in_the_state_directory_or_where_it_is_told() -> None:
    assert find_key_file({}, PATHS) == Path("/var/lib/gpupool/secrets/secret.key")
    assert find_key_file({NAME: "/run/key"}, PATHS) == Path("/run/key")
    with pytest.raises(BadOption, match="whole path"):
        find_key_file({NAME: "key"}, PATHS)
