"""Command lines of a cluster's servers, and the record that is written before anything else."""

from __future__ import annotations

from pathlib import Path

from gpupool.agent.network.clustering.cluster_files import (
    ServerRecord,
    list_servers,
    locate_replica,
    make_create_command,
    make_join_command,
    read_record,
    write_record,
)
from gpupool.agent.network.daemons import EngineFiles

RECORD = ServerRecord(
    cluster=7,
    address="10.0.0.1",
    ports={"northbound": 6641, "southbound": 6642},
    peer_ports={"northbound": 6643, "southbound": 6644},
)


def make_files(root: Path) -> EngineFiles:
    files = EngineFiles("m", root / "databases", root / "run")
    files.data.mkdir()
    return files


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_record(tmp_path / "cluster") is None
    write_record(tmp_path / "cluster", RECORD)
    assert read_record(tmp_path / "cluster") == RECORD
    assert RECORD.remote("southbound") == "ssl:10.0.0.1:6642"
    assert RECORD.peer("southbound") == "ssl:10.0.0.1:6644"


def test_a_cluster_begins_with_the_own_database_or_else_with_its_schema(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    target = tmp_path / "new.db"
    empty = make_create_command(files, "northbound", RECORD, target)
    assert empty[2:] == (str(target), "/usr/share/ovn/ovn-nb.ovsschema", "ssl:10.0.0.1:6643")
    files.database("northbound").touch()
    begun = make_create_command(files, "northbound", RECORD, target)
    assert begun[3] == str(files.database("northbound"))


def test_a_server_joins_by_every_server_that_is_there(tmp_path: Path) -> None:
    peers = ["ssl:10.0.0.2:6643", "ssl:10.0.0.3:6643"]
    command = make_join_command("northbound", RECORD, peers, tmp_path / "new.db")
    assert command[3:] == ("OVN_Northbound", "ssl:10.0.0.1:6643", *peers)


def test_servers_listen_by_tls_on_their_own_address_alone(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    north, south = list_servers(files, RECORD)
    program = north.arguments.index("ovsdb-server")
    assert north.arguments[program + 1] == str(locate_replica(files, "northbound", 7))
    remotes = [word for word in south.arguments if word.startswith("--remote=")]
    assert remotes == [f"--remote=p{files.remote('southbound')}", "--remote=pssl:6642:10.0.0.1"]
    assert set(files.tls_options) <= set(south.arguments)
