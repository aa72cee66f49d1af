"""Virtual machines of several accounts on a pool of root: each is its own account's."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpupool.vm
from tests.e2e.pool_fixture import RealPool
from tests.hosts import guest
from tests.support.accounts import open_directory
from tests.support.typing_as import Typed, typed_as

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(bool(guest.find_missing_part()), reason=guest.find_missing_part()),
]
ALICE = 54321
BOB = 54322


@pytest.fixture
def pool() -> Iterator[RealPool]:
    for found in pkgutil.iter_modules(gpupool.vm.__path__, "gpupool.vm."):
        importlib.import_module(found.name)  # another account may not read this Python
    with open_directory() as folder:
        (folder / "tiny.raw").write_bytes(guest.make_boot_disk())
        (folder / "secret.raw").write_bytes(guest.make_boot_disk())
        (folder / "tiny.raw").chmod(0o644)
        (folder / "secret.raw").chmod(0o600)
        with RealPool(folder / "pool", "2xL40S") as made:
            yield made


def type_as(uid: int, pool: RealPool, *words: str) -> Typed:
    return typed_as(uid, pool.environ, "vm", *words)


def list_as(uid: int, pool: RealPool) -> list[dict[str, object]]:
    typed = type_as(uid, pool, "list", "--all", "-o", "json")
    assert typed.code == 0, typed.said
    rows: list[dict[str, object]] = json.loads(typed.said)
    return rows


def find_qemu(directory: Path) -> Path:
    """The process that runs in a directory."""
    for entry in Path("/proc").iterdir():
        try:
            if (entry / "cwd").readlink() == directory:
                return entry
        except (OSError, ValueError):
            continue
    raise AssertionError(f"nothing runs in {directory}")


def test_a_vm_runs_as_its_user_and_only_its_user_reaches_it(pool: RealPool) -> None:
    folder = pool.state_dir.parent
    size = ("--ram", "64MiB", "--cpus", "1")
    started = type_as(ALICE, pool, "run", "--image", f"{folder}/tiny.raw", *size, "--name", "dev")
    assert started.code == 0, started.said
    pool.until_state("dev", "running")
    job = started.said.strip()
    run = pool.state_dir / "agent" / "vms" / job / "run"
    assert find_qemu(run).stat().st_uid == ALICE
    assert (run.stat().st_uid, run.stat().st_mode & 0o777) == (ALICE, 0o700)

    pool.until(lambda: list_as(ALICE, pool)[0]["address"], "her address")
    # Both are users of one tenant, so Bob sees her job, but not its command: not that it is a VM.
    assert list_as(BOB, pool) == []
    for verb in (("reset",), ("xml",), ("stop",)):
        assert type_as(BOB, pool, *verb, job).code in (4, 5)
    assert find_qemu(run).stat().st_uid == ALICE

    assert type_as(ALICE, pool, "reset", "dev") == Typed(0, "dev reset\n")
    assert type_as(ALICE, pool, "stop", "dev", "--grace", "0").code == 0
    assert type_as(BOB, pool, "delete", job, "--yes").code in (4, 5)
    assert (run / "disk.qcow2").exists()
    assert type_as(ALICE, pool, "delete", "dev", "--yes").code == 0
    assert not (run / "disk.qcow2").exists()
    # What only root may remove is removed by the agent when it begins, and once an hour.
    pool.do("restart")
    assert list(run.parents[1].iterdir()) == []


def test_an_image_that_its_user_cannot_read_starts_no_vm(pool: RealPool) -> None:
    secret = f"{pool.state_dir.parent}/secret.raw"
    refused = type_as(BOB, pool, "run", "--image", secret)
    assert (refused.code, "Permission denied" in refused.said) == (2, True)
    # A client that does not look at the file is refused by the node, as the same account.
    body = {
        "shape": {"gpu_milli": 1000},
        "launch": {
            "argv": ["gpupool:vm"],
            "vm": {"cpus": 1, "ram_bytes": 64 << 20, "image": secret},
        },
        "name": "thief",
    }
    assert post_as(BOB, pool, body) == 201
    ended = pool.until_state("thief", "failed")
    assert "Permission denied" in ended["reason"]
    assert list((pool.state_dir / "agent" / "vms").iterdir()) == []


def post_as(uid: int, pool: RealPool, body: object) -> int:
    """Post a job as an account, past the command line."""
    from gpupool.base.client_settings import ClientSettings
    from gpupool.client.transport import Api
    from tests.support.accounts import acting_as

    def post() -> int:
        settings = ClientSettings(state_dir=str(pool.state_dir))
        Api(settings).request("POST", "jobs", body)
        return 201

    answer = acting_as(uid, post)
    assert isinstance(answer, int)
    return answer
