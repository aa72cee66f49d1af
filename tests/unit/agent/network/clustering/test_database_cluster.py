"""Real servers of a cluster of databases: created, joined, ended, and finished by the next agent
wherever one was killed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.centre import Centre
from gpupool.agent.network.certificate_files import write_certificate
from gpupool.agent.network.clustering import database_cluster
from gpupool.agent.network.clustering.cluster_files import SCHEMAS
from gpupool.agent.network.clustering.database_cluster import DatabaseCluster
from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.database_files import create_databases, create_directories
from gpupool.base.clock import wall_ns
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.databases import (
    DatabaseAddresses,
    DatabaseServerReport,
    DatabaseServerWork,
    ServerStep,
)
from gpupool.wire.network.engine import NetworkEngineWork
from gpupool.wire.network.networks import EngineCertificate
from tests.support.kill_points import run_killed
from tests.support.ovsdb import find_missing_part
from tests.support.supervised import until

pytest.importorskip("cryptography")

from gpupool.network.machines.certificates import (
    Authority,
    issue_certificate,
    join_trusted,
    make_authority,
)

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())
CLUSTER = 7
#: Changes to files after each of which an agent is killed.
CHANGES = 6
#: What a centre has without a cluster.
OWN_FILES = {"northbound.db", "southbound.db", "switch.db"}


class Member:
    """A machine with an address of the loopback interface, and its part in a cluster."""

    def __init__(self, root: Path, number: int, authority: Authority) -> None:
        self.root = root / f"m{number}"
        self.address = f"127.77.{os.getpid() % 250}.{number + 1}"
        self.files = EngineFiles("m", self.root / "databases", root / f"r{number}")
        self.helpers = HelperProcesses(root / f"h{number}", os.geteuid(), lambda _name: ())
        self.centre = Centre(self.files, self.root, self.helpers)
        self.role: Literal["centre", "member"] = "centre"
        self.root.mkdir()
        made = issue_certificate(authority, f"m{number}", wall_ns())
        trusted = join_trusted([authority], wall_ns())
        certificate = EngineCertificate(
            certificate=made.certificate, private_key=made.private_key, trusted=trusted
        )
        write_certificate(self.files, certificate)
        create_directories(self.files)
        self.start_agent()

    def start_agent(self) -> None:
        self.cluster = DatabaseCluster(self.files, self.root, self.helpers, self.centre)

    def make_work(
        self,
        step: ServerStep | None,
        peers: DatabaseServerReport | None = None,
        expelled: DatabaseServerReport | None = None,
    ) -> NetworkEngineWork:
        """The work of a step; without one, of a machine that is no server of a cluster."""
        databases = None
        if step is not None:
            databases = DatabaseServerWork(
                cluster=CLUSTER, step=step, peers=address(peers), expelled=address(expelled)
            )
        return NetworkEngineWork(want="run", role=self.role, databases=databases)

    def apply(
        self,
        step: ServerStep | None,
        peers: DatabaseServerReport | None = None,
        expelled: DatabaseServerReport | None = None,
    ) -> DatabaseServerReport | None:
        """Do the work of a step."""
        return self.cluster.apply(self.make_work(step, peers, expelled), self.address)

    def serve(
        self, step: ServerStep, peers: DatabaseServerReport | None = None
    ) -> DatabaseServerReport:
        """Do the work of a step, after which the machine is a member."""
        report = self.apply(step, peers)
        assert report is not None
        assert report.northbound.is_member
        assert report.southbound.is_member
        return report

    def list_files(self) -> set[str]:
        """The records and databases, and the locks of a cluster's databases."""
        found = {file.name for file in self.files.data.iterdir()}
        found |= {file.name for file in self.root.iterdir() if file.is_file()}
        # Locks of the centre's own databases stay with these.
        return {name for name in found if not name.startswith(".") or f"-{CLUSTER}" in name}

    def command(self, *words: str) -> str:
        """What `ovn-nbctl` prints at this machine's own server, leader or not."""
        socket = self.files.remote("northbound")
        command = ["ovn-nbctl", f"--db={socket}", "--no-leader-only", "--timeout=10", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def end(self) -> None:
        self.cluster.close()
        self.helpers.release_unknown(())


def address(report: DatabaseServerReport | None) -> DatabaseAddresses:
    if report is None:
        return DatabaseAddresses()
    return DatabaseAddresses(
        northbound=[report.northbound.address], southbound=[report.southbound.address]
    )


@pytest.fixture
def make_member() -> Iterator[Callable[[int], Member]]:
    authority = make_authority("test", wall_ns())
    with ExitStack() as stack:
        # A socket's path has 107 bytes at most, which a directory of pytest may exceed.
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpc-")))

        def make(number: int) -> Member:
            member = Member(root, number, authority)
            stack.callback(member.end)
            return member

        yield make


def test_rows_of_the_centre_go_to_all_servers_and_come_back_from_them(
    make_member: Callable[[int], Member],
) -> None:
    first = make_member(0)
    create_databases(first.files, has_databases=True)
    first.centre.start()
    until(lambda: (first.files.run / "northbound.sock").exists())
    first.command("ls-add", "before")
    created = first.serve("create")
    assert created.northbound.role == "leader"
    second = make_member(1)
    second.role = "member"
    prepared = second.apply("prepare")
    assert prepared is not None
    assert prepared.northbound.role == "none"
    joined = second.serve("join", created)
    assert joined.northbound.address == prepared.northbound.address
    assert joined.northbound.role == "follower"
    assert "before" in second.command("ls-list")
    second.command("ls-add", "after")
    # Alone again: with all that was written meanwhile.
    assert first.apply(None) is None
    assert first.list_files() == OWN_FILES
    first.centre.start()
    until(lambda: (first.files.run / "northbound.sock").exists())
    assert "after" in first.command("ls-list")


def test_a_server_that_was_removed_says_so_and_joins_as_another_one(
    make_member: Callable[[int], Member],
) -> None:
    first = make_member(0)
    created = first.serve("create")
    second = make_member(1)
    second.role = "member"
    joined = second.serve("join", created)
    left = first.apply("serve", expelled=joined)
    assert left is not None
    assert left.northbound.members == [created.northbound.address]
    removed = second.cluster.watch(second.make_work("serve"))
    assert removed is not None
    assert not removed.northbound.is_member
    second.apply("prepare")
    second.serve("join", created)
    assert second.apply(None) is None
    assert second.list_files() == set()


def test_a_centre_that_never_joined_begins_empty(
    make_member: Callable[[int], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_cluster, "_JOIN_SECONDS", 0.3)
    first = make_member(0)
    created = first.serve("create")
    # Nothing answers where it is to join.
    first.end()
    second = make_member(1)
    report = second.apply("join", created)
    assert report is not None
    assert not report.northbound.is_member
    assert second.apply(None) is None
    assert second.list_files() == set()
    assert second.helpers.list_names() == []


def test_a_server_whose_files_are_gone_says_so_and_creates_nothing(
    make_member: Callable[[int], Member],
) -> None:
    member = make_member(0)
    member.serve("create")
    member.cluster.close()
    for name in SCHEMAS:
        (member.files.data / f"{name}-{CLUSTER}.db").unlink()
    member.start_agent()
    report = member.apply("serve")
    assert report is not None
    assert report.is_lost
    assert member.list_files() == set()
    assert member.helpers.list_names() == []


def test_a_server_with_another_address_is_refused_with_both(
    make_member: Callable[[int], Member],
) -> None:
    member = make_member(0)
    member.apply("prepare")
    before = member.address
    member.address = "127.0.0.1"
    with pytest.raises(NetworkingUnavailable, match=f"servers at {before}, and its .* 127.0.0.1"):
        member.apply("prepare")


@pytest.mark.parametrize("number", range(CHANGES))
def test_the_next_agent_finishes_what_a_killed_one_began(
    make_member: Callable[[int], Member], number: int
) -> None:
    member = make_member(0)
    create_databases(member.files, has_databases=True)
    assert run_killed(number, lambda: member.apply("create"), below=member.root)
    member.start_agent()
    member.serve("create")
    member.cluster.close()
    member.start_agent()
    assert run_killed(number, lambda: member.apply(None), below=member.root)
    member.start_agent()
    member.apply(None)
    assert member.list_files() == OWN_FILES
    assert member.helpers.list_names() == []
