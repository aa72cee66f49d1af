"""A pool that root started, used by other accounts: real sockets, real credentials, real
processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpupool.base.errors import NoPermission, NotFound
from gpupool.client.sdk import Pool
from tests.support.accounts import acting_as
from tests.support.supervised import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can be several people"),
]

ALICE, BOB = 54321, 54322
GPUPOOL = str(Path(sys.executable).parent / "gpupool")


@pytest.fixture(scope="module")
def state() -> Iterator[str]:
    """A root's pool of two simulated cards in a directory that others can reach."""
    with tempfile.TemporaryDirectory(prefix="gpupool-people-") as work:
        os.chmod(work, 0o755)
        root = f"{work}/pool"
        subprocess.run(
            [GPUPOOL, "up", "-d", "--sim", "2xL40S", "--state-dir", root],
            check=True,
            capture_output=True,
        )
        yield root
        done = subprocess.run(
            [GPUPOOL, "down", "--purge", "--yes", "--state-dir", root],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert not os.path.exists(root)


def output(state: str, command: str, **asked: object) -> Callable[[], str]:
    def act() -> str:
        with Pool(state_dir=state) as pool:
            job = pool.submit(["/bin/sh", "-c", command], gpu=0.1, memory="1GiB", **asked).first  # type: ignore[arg-type]
            pool.wait(job.id)
            return b"".join(pool.logs(job.id)).decode()

    return act


def test_a_job_runs_as_the_account_that_submitted_it(state: str) -> None:
    said = acting_as(ALICE, output(state, "id -u; id -g; id -G; pwd"))
    assert said == f"{ALICE}\n{ALICE}\n{ALICE} 60000\n/tmp\n"


def test_the_simulated_cards_are_reached_by_those_who_hold_one_alone(state: str) -> None:
    """Their file is written by jobs of every account; a private mount is the only way to it."""
    assert "written" in str(
        acting_as(ALICE, output(state, "test -w /run/gpupool/simgpu/machine && echo written"))
    )
    (machine,) = Path(state, "agent", "simgpu").glob("*/machine")

    def outside() -> str:
        try:
            os.close(os.open(str(machine), os.O_RDWR))
        except PermissionError as error:
            return error.strerror or ""
        return "opened"

    assert acting_as(BOB, outside) == "Permission denied"
    assert "closed" in str(acting_as(ALICE, output(state, f"test -e {machine} || echo closed")))


def test_an_unknown_account_joins_the_default_tenant_as_a_user(state: str) -> None:
    def act() -> list[str]:
        with Pool(state_dir=state) as pool:
            me = pool.whoami()
            return [me.tenant, me.role]

    assert acting_as(BOB, act) == ["default", "user"]


def test_the_share_is_described_at_the_fixed_path_and_cannot_be_written(state: str) -> None:
    said = acting_as(
        ALICE,
        output(state, 'cat "$GPUPOOL_SHARE/share.json"; echo x > "$GPUPOOL_SHARE/x" || echo no'),
    )
    document, _, last = str(said).rpartition("}")
    share = json.loads(document + "}")
    assert (
        share["fence"],
        share["devices"][0]["gpu_milli"],
        share["devices"][0]["memory_bytes"],
    ) == (
        "soft",
        100,
        1 << 30,
    )
    assert last.strip().endswith("no")


def test_root_s_own_job_over_the_socket_is_root_s(state: str) -> None:
    assert output(state, "id -u")() == "0\n"


def test_only_admins_touch_cards_and_nobody_stops_a_stranger_s_job(state: str) -> None:
    def submit() -> str:
        with Pool(state_dir=state) as pool:
            return pool.submit(["/bin/sleep", "60"], gpu=0.1, memory="1GiB", name="alices").first.id

    def stop() -> None:
        with Pool(state_dir=state) as pool:
            pool.stop("alices", grace_seconds=0)

    acting_as(ALICE, submit)
    with pytest.raises(NoPermission):
        acting_as(BOB, stop)  # same tenant: seen, not theirs to stop
    admin = [GPUPOOL, "--state-dir", state]
    subprocess.run([*admin, "tenant", "create", "others"], check=True, capture_output=True)
    subprocess.run(
        [*admin, "user", "set", f"uid-{BOB}", "--tenant", "others"], check=True, capture_output=True
    )
    with pytest.raises(NotFound):
        acting_as(BOB, stop)  # another tenant: not there at all
    acting_as(ALICE, stop)


def test_a_stranger_cannot_attach_to_another_accounts_job(state: str) -> None:
    """The supervisor's socket answers only its job's account, the pool's owner and root."""
    with Pool(state_dir=state) as pool:
        job = pool.submit(["/bin/sleep", "60"], gpu=0.1, memory="1GiB", name="roots").first
        until(
            lambda: pool.job("roots").state == "running",
            "the job's start: before it there is no socket",
        )

    def knock() -> str:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(f"{state}/agent/jobs/{job.id}/sock")
            sock.sendall(b"hello 1 1\nsignal 9\n")
            return sock.recv(200).decode()
        except OSError as error:
            return f"refused {error.errno}"

    said = str(acting_as(ALICE, knock))
    with Pool(state_dir=state) as pool:
        assert pool.job("roots").state == "running", said
        pool.stop("roots", grace_seconds=0)
