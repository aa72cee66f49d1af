"""Partitions of an HGX board's fabric; `fmpm` is a program with the vendor's output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.mechanisms.pci.fabric import (
    TABLE,
    activate_partition,
    deactivate_partition,
    explain_partitions,
    parse_partitions,
)
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools

CARDS = ("0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0")
#: Plays the Fabric Manager: a file for each active partition.
PROGRAM = """#!/bin/sh
state="$(dirname "$0")/active"
case "$1" in
-l) sed "s/ACTIVE/$(cat "$state" 2>/dev/null || echo 0)/" "$(dirname "$0")/table" ;;
-a) echo 1 >"$state" ;;
-d) echo 0 >"$state" ;;
esac
"""


def describe(identifier: int, cards: tuple[str, ...], active: object = 0) -> dict[str, object]:
    gpus = []
    for number, card in enumerate(cards):
        # The vendor writes eight digits of the domain, and capitals.
        gpus.append({"pciBusId": f"0000{card}".upper(), "physicalId": number + 1, "uuid": ""})
    return {"partitionId": identifier, "isActive": active, "numGpus": len(cards), "gpuInfo": gpus}


def write_table(root: Path) -> None:
    table = {"partitionInfo": [describe(0, CARDS), describe(1, CARDS[:2]), describe(2, CARDS[2:])]}
    (root / TABLE).parent.mkdir(parents=True)
    (root / TABLE).write_text(json.dumps(table))


def install_program(root: Path) -> Path:
    folder = root / "usr/bin"
    folder.mkdir(parents=True)
    (folder / "fmpm").write_text(PROGRAM)
    (folder / "fmpm").chmod(0o755)
    table = json.dumps({"partitionInfo": [describe(1, CARDS[:2], "ACTIVE")]})
    (folder / "table").write_text(table.replace('"ACTIVE"', "ACTIVE"))
    return folder


def test_a_node_without_a_table_takes_any_set(tmp_path: Path) -> None:
    assert explain_partitions(tmp_path, CARDS[:3]) == ""


def test_a_card_beside_the_fabric_is_free(tmp_path: Path) -> None:
    write_table(tmp_path)
    assert explain_partitions(tmp_path, ["0000:99:00.0"]) == ""


def test_a_set_that_is_no_partition_lists_the_partitions(tmp_path: Path) -> None:
    write_table(tmp_path)
    reason = explain_partitions(tmp_path, CARDS[1:3])
    assert "its 2 cards are no partition of the NVSwitch fabric" in reason
    assert f"partition 1 ({CARDS[0]}, {CARDS[1]})" in reason
    assert "partition 2" in reason


def test_a_partition_without_the_program_cannot_be_activated(tmp_path: Path) -> None:
    write_table(tmp_path)
    assert "fmpm is not installed" in explain_partitions(tmp_path, CARDS[:2])
    install_program(tmp_path)
    assert explain_partitions(tmp_path, reversed(CARDS[:2])) == ""


def test_a_damaged_table_names_the_file(tmp_path: Path) -> None:
    write_table(tmp_path)
    (tmp_path / TABLE).write_text('{"partitions": []}')
    assert "write it anew with fmpm -l" in explain_partitions(tmp_path, CARDS[:2])


@pytest.mark.parametrize("text", ["", "[]", '{"partitionInfo": [{}]}', '{"partitionInfo": 7}'])
def test_what_is_no_list_of_partitions_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_partitions(text)


def test_a_partition_is_activated_once_and_deactivated_again(tmp_path: Path) -> None:
    folder = install_program(tmp_path)
    tools = OperationTools(PciTree(tmp_path))
    record = str(tmp_path / "fabric.json")
    for _ in range(2):
        activate_partition(tools, 1, record)
        assert (folder / "active").read_text() == "1\n"
    deactivate_partition(tools, 1, record)
    assert (folder / "active").read_text() == "0\n"


def test_a_partition_that_was_active_before_stays_active(tmp_path: Path) -> None:
    folder = install_program(tmp_path)
    (folder / "active").write_text("1\n")
    tools = OperationTools(PciTree(tmp_path))
    record = str(tmp_path / "fabric.json")
    activate_partition(tools, 1, record)
    deactivate_partition(tools, 1, record)
    assert (folder / "active").read_text() == "1\n"


def test_a_program_without_effect_is_found(tmp_path: Path) -> None:
    folder = install_program(tmp_path)
    (folder / "fmpm").write_text(PROGRAM.replace('-a) echo 1 >"$state"', "-a)"))
    tools = OperationTools(PciTree(tmp_path))
    with pytest.raises(OperationFailure, match="did not become active"):
        activate_partition(tools, 1, str(tmp_path / "fabric.json"))
    with pytest.raises(OperationFailure, match="no partition 7"):
        activate_partition(tools, 7, str(tmp_path / "fabric.json"))
