"""Fixtures of machines whose cards have MIG, through pynvml and a stand-in for the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms.mig.mechanism import MigMechanism
from tests.support.mig_cards import MigHost, build_host, compile_library


@pytest.fixture(scope="session")
def mig_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("mig-driver"))


@pytest.fixture
def host(mig_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MigHost:
    """Two H200 in MIG mode."""
    return build_host(tmp_path, mig_library, monkeypatch)


@pytest.fixture
def mechanism(host: MigHost) -> MigMechanism:
    """The mechanism with its slow step in this process."""
    return MigMechanism(host.driver, host.files, host.run_step)
