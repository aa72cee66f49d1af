"""The daemons' command lines: private files alone, and every program named with its package."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.network.daemons import (
    find_datapath,
    find_missing_programs,
    list_centre_databases,
    list_create_commands,
    list_workers,
    locate_engine,
    make_compiler,
    make_switch_database,
    make_switch_settings,
)


def test_every_file_of_a_daemon_is_below_the_engines_own_directories(tmp_path: Path) -> None:
    files = locate_engine(tmp_path)
    own = (files.run, files.data, files.certificates)
    centre = (*list_centre_databases(files), make_compiler(files))
    for helper in (make_switch_database(files), *centre, *list_workers(files)):
        for word in helper.arguments[1:]:
            path = word.partition("=")[2] or word
            path = path.removeprefix("punix:").removeprefix("unix:")
            if path.startswith("/"):
                assert any(map(Path(path).is_relative_to, own)), word


def test_two_agents_of_one_machine_have_engines_of_their_own(tmp_path: Path) -> None:
    one = locate_engine(tmp_path / "one")
    two = locate_engine(tmp_path / "two")
    assert one.run != two.run
    assert one.mark != two.mark
    assert locate_engine(tmp_path / "one") == one


def test_a_long_state_directory_leaves_room_for_the_name_of_a_socket(tmp_path: Path) -> None:
    files = locate_engine(tmp_path / ("long-" * 40))
    # sun_path of Linux, with its NUL (unix(7)).
    assert len(files.remote("southbound").removeprefix("unix:")) < 108


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    missing = find_missing_programs()
    assert missing["ovn-northd"] == "ovn-central"
    assert missing["ovs-vswitchd"] == "openvswitch-switch"
    assert missing["ovn-controller"] == "ovn-host"


def test_the_switch_uses_the_kernels_datapath_where_there_is_one(tmp_path: Path) -> None:
    assert find_datapath(tmp_path) == "netdev"
    (tmp_path / "sys/module/openvswitch").mkdir(parents=True)
    assert find_datapath(tmp_path) == "system"
    files = locate_engine(tmp_path)
    settings = make_switch_settings(files, "system", chassis="gpupool", southbound="", tunnel="")
    assert settings["ovn-bridge-datapath-type"] == "system"


def test_a_member_connects_to_its_centre_and_a_lone_machine_to_itself(tmp_path: Path) -> None:
    files = locate_engine(tmp_path)
    alone = make_switch_settings(files, "netdev", chassis="gpupool", southbound="", tunnel="")
    assert alone["ovn-remote"] == files.remote("southbound")
    assert alone["ovn-encap-ip"] == "127.0.0.1"
    member = make_switch_settings(
        files, "netdev", chassis="gpupool-b", southbound="ssl:10.0.0.1:6642", tunnel="10.0.0.2"
    )
    assert member["system-id"] == "gpupool-b"
    assert member["ovn-remote"] == "ssl:10.0.0.1:6642"
    assert member["ovn-encap-ip"] == "10.0.0.2"


def test_each_database_is_created_from_its_own_schema(tmp_path: Path) -> None:
    member = list_create_commands(locate_engine(tmp_path), has_databases=False)
    assert [file.stem for file in member] == ["switch"]
    commands = list_create_commands(locate_engine(tmp_path), has_databases=True)
    assert {file.stem: Path(command[-1]).stem for file, command in commands.items()} == {
        "switch": "vswitch",
        "northbound": "ovn-nb",
        "southbound": "ovn-sb",
    }


def test_the_switch_alone_keeps_the_allocator_of_the_c_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faster = {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}
    monkeypatch.setattr("gpupool.agent.network.daemons.choose_allocator", lambda: faster)
    files = locate_engine(tmp_path)
    helpers = (*list_centre_databases(files), make_compiler(files), *list_workers(files))
    preloaded = [one.name for one in helpers if faster.items() <= one.environment.items()]
    assert preloaded == ["db-northbound", "db-southbound", "northd", "controller"]
