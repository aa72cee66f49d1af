"""Partitions of an HGX board's fabric; `fmpm` is a program with the vendor's output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.mechanisms.pci.fabric import (
    MODULES,
    SOCKET,
    TABLE,
    activate_partition,
    deactivate_partition,
    explain_partitions,
    match_partition,
    parse_modules,
    parse_partitions,
    read_partitions,
)
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools

#: Cards by module number, and partitions by module numbers: an HGX H100 as NVIDIA's guide about shared
#: NVSwitch virtualization (WP-12736-002) shows it. The order of the bus is another one.
HGX_CARDS = {
    1: "0000:86:00.0",
    2: "0000:b8:00.0",
    3: "0000:87:00.0",
    4: "0000:bb:00.0",
    5: "0000:0f:00.0",
    6: "0000:41:00.0",
    7: "0000:10:00.0",
    8: "0000:44:00.0",
}
HGX_PARTITIONS = {
    0: (1, 2, 3, 4, 5, 6, 7, 8),
    1: (1, 2, 3, 4),
    2: (5, 6, 7, 8),
    3: (1, 3),
    4: (2, 4),
    5: (5, 7),
    6: (6, 8),
    **{6 + module: (module,) for module in range(1, 9)},
}
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


def describe_board(address: str) -> str:
    """What `fmpm -l` prints for the board while no card has NVIDIA's driver."""
    partitions = []
    for identifier, modules in HGX_PARTITIONS.items():
        links = {"numNvLinksAvailable": 18, "maxNumNvLinks": 18, "nvlinkLineRateMBps": 26562}
        cards = [{"physicalId": one, "uuid": "", "pciBusId": address, **links} for one in modules]
        partitions.append(
            {"partitionId": identifier, "isActive": 0, "numGpus": len(cards), "gpuInfo": cards}
        )
    head = {"version": 16909068, "numPartitions": len(partitions), "maxNumPartitions": 15}
    return json.dumps({**head, "partitionInfo": partitions}, indent=3)


def describe_cards(label: str) -> str:
    """The lines of `nvidia-smi -q` that matter, and some that look like them."""
    lines = ["==============NVSMI LOG==============", "", "Attached GPUs             : 8"]
    for module, address in HGX_CARDS.items():
        lines += [f"GPU 0000{address.upper()}", "    Product Name          : NVIDIA H100 80GB HBM3"]
        lines += ["    GPU Part Number       : 692-2G520-0200-000"]
        lines += ["    Platform Info", f"        {label}         : {module}"]
        lines += ["    PCI", f"        Bus Id            : 0000{address.upper()}"]
    return "\n".join(lines) + "\n"


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
    assert f"partition 1 (modules 1, 2: {CARDS[0]}, {CARDS[1]})" in reason
    assert "partition 2" in reason


def test_a_partition_without_the_program_cannot_be_activated(tmp_path: Path) -> None:
    write_table(tmp_path)
    assert "fmpm is not installed" in explain_partitions(tmp_path, CARDS[:2])
    install_program(tmp_path)
    assert explain_partitions(tmp_path, reversed(CARDS[:2])) == ""


def test_a_damaged_table_names_the_file(tmp_path: Path) -> None:
    write_table(tmp_path)
    (tmp_path / TABLE).write_text('{"partitions": []}')
    assert "rewrite it with fmpm -l" in explain_partitions(tmp_path, CARDS[:2])


@pytest.mark.parametrize("text", ["", "[]", '{"partitionInfo": [{}]}', '{"partitionInfo": 7}'])
def test_what_is_no_list_of_partitions_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_partitions(text, {})


@pytest.mark.parametrize("label", ["Module ID", "Module Id", "GPU Module ID"])
@pytest.mark.parametrize("address", ["", "00000000:00:00.0"])
def test_cards_without_their_driver_are_found_by_module(
    tmp_path: Path, label: str, address: str
) -> None:
    (tmp_path / TABLE).parent.mkdir(parents=True)
    (tmp_path / TABLE).write_text(describe_board(address))
    reason = explain_partitions(tmp_path, [HGX_CARDS[1]])
    assert "nvidia-smi -q" in reason
    assert MODULES in reason
    assert parse_modules(describe_cards(label)) == HGX_CARDS
    (tmp_path / MODULES).write_text(describe_cards(label))
    partitions = read_partitions(tmp_path)
    for identifier, modules in HGX_PARTITIONS.items():
        found = match_partition(partitions, [HGX_CARDS[module] for module in modules])
        assert found is not None
        assert found.identifier == identifier
    # The first four cards of the bus are in no order of modules, but the same half of the board.
    assert match_partition(partitions, sorted(HGX_CARDS.values())[:4]) == partitions[2]
    assert match_partition(partitions, sorted(HGX_CARDS.values())[:2]) == partitions[5]
    assert match_partition(partitions, sorted(HGX_CARDS.values())[1:3]) is None


def test_a_partition_with_an_unknown_card_matches_nothing() -> None:
    partitions = parse_partitions(describe_board(""), {1: HGX_CARDS[1]})
    assert match_partition(partitions, []) is None
    found = match_partition(partitions, [HGX_CARDS[1]])
    assert found is not None
    assert found.modules == {1}


def test_the_manager_is_reached_through_its_socket(tmp_path: Path) -> None:
    folder = install_program(tmp_path)
    (tmp_path / SOCKET).parent.mkdir(parents=True)
    (tmp_path / SOCKET).touch()
    way = f"--unix-domain-socket {tmp_path / SOCKET}"
    log = f'#!/bin/sh\necho "$@" >>"{folder}/calls"\nshift 2\n'
    (folder / "fmpm").write_text(log + PROGRAM)
    activate_partition(OperationTools(PciTree(tmp_path)), 1, str(tmp_path / "fabric.json"))
    calls = (folder / "calls").read_text().splitlines()
    assert calls == [f"{way} -l", f"{way} -a 1", f"{way} -l"]


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
