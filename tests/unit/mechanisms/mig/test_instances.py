"""Creates and destroys exactly its own instances, whatever another tool or a boot did meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection, ServiceUnavailable, StillInUse
from gpupool.mechanisms.mig.driver import CallProblem, DriverCallError
from gpupool.mechanisms.mig.instances import create_piece, destroy_piece
from gpupool.mechanisms.mig.records import InstanceRecord, Piece, read_record, write_record
from tests.support.mig_cards import CARDS, MigHost

PIECE = Piece(CARDS[0], "2g.35gb", 14, 4, 2)
BOOT = "boot-1"


def test_create_piece_records_number_and_uuid(host: MigHost, tmp_path: Path) -> None:
    record = create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    assert record == read_record(tmp_path / "one")
    assert (record.number, record.compute) == (3, 0)
    assert record.uuid == "MIG-00000000-0003-5000-8000-000000000000"
    assert create_piece(host.driver, PIECE, tmp_path / "one", BOOT) == record
    assert host.list_numbers() == [3]


def test_create_piece_refuses_a_slot_that_another_tool_took(host: MigHost, tmp_path: Path) -> None:
    host.make_foreign("3g.71gb", 4)
    before = host.snapshot()
    with pytest.raises(RequestRejection, match=r"taken by GPU instance 1 .*units 4-7") as caught:
        create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    assert "nvidia-smi mig -dgi -gi 1" in caught.value.hint
    assert host.snapshot() == before
    assert read_record(tmp_path / "one") is None


def test_create_piece_never_takes_over_a_foreign_instance_of_the_same_shape(
    host: MigHost, tmp_path: Path
) -> None:
    host.make_foreign("2g.35gb", 4)
    before = host.snapshot()
    with pytest.raises(RequestRejection, match="which gpupool did not make"):
        create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    destroy_piece(host.driver, tmp_path / "one", host.files)
    assert host.snapshot() == before


def test_create_piece_refuses_when_another_tool_is_faster(
    host: MigHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = host.driver.create_instance

    def create_late(card: str, profile_id: int, start: int, size: int) -> int:
        create(card, profile_id, start, size)  # the other tool's
        return create(card, profile_id, start, size)

    monkeypatch.setattr(host.driver, "create_instance", create_late)
    with pytest.raises(RequestRejection, match="taken by GPU instance 3"):
        create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    destroy_piece(host.driver, tmp_path / "one", host.files)
    assert host.list_numbers() == [3], "the other tool's instance stays"


def test_create_piece_completes_a_half_made_instance(host: MigHost, tmp_path: Path) -> None:
    write_record(tmp_path / "one", InstanceRecord(PIECE, BOOT))
    host.driver.create_instance(CARDS[0], 14, 4, 2)
    assert create_piece(host.driver, PIECE, tmp_path / "one", BOOT).is_complete
    assert host.list_numbers() == [3]


def test_destroy_piece_accepts_an_instance_whose_compute_instance_is_gone(
    host: MigHost, tmp_path: Path
) -> None:
    before = host.snapshot()
    create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    host.driver.destroy_compute(CARDS[0], 3, 0)
    destroy_piece(host.driver, tmp_path / "one", host.files)
    assert host.snapshot() == before


def test_destroy_piece_leaves_the_next_owner_of_the_number(host: MigHost, tmp_path: Path) -> None:
    create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    host.driver.destroy_compute(CARDS[0], 3, 0)
    host.driver.destroy_instance(CARDS[0], 3)
    assert host.make_foreign("2g.35gb", 0) == 3, "the number comes back"
    before = host.snapshot()
    destroy_piece(host.driver, tmp_path / "one", host.files)
    assert host.snapshot() == before


def test_destroy_piece_leaves_an_equal_instance_of_a_later_boot(
    host: MigHost, tmp_path: Path
) -> None:
    record = create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    host.state.cards[0].resetless = 0
    host.reboot()
    number = host.make_foreign("2g.35gb", 4)
    uuid = host.driver.read_partition_uuid(CARDS[0], number, 0)
    assert (number, uuid) == (record.number, record.uuid), "number and uuid are used again"
    destroy_piece(host.driver, tmp_path / "one", host.files)
    assert host.list_numbers() == [number]


def test_destroy_piece_names_the_process_that_has_it_open(host: MigHost, tmp_path: Path) -> None:
    create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    node = host.files.root / "dev/nvidia-caps/nvidia-cap9"  # gpu0/gi3/access
    program = f"f = open({str(node)!r}); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StillInUse, match=rf"is open in python\S* \(pid {holder.pid}\)"):
            destroy_piece(host.driver, tmp_path / "one", host.files)
        assert host.list_numbers() == [3]
        holder.communicate(b"\n")
    destroy_piece(host.driver, tmp_path / "one", host.files)
    assert host.list_numbers() == []


def test_destroy_piece_says_what_a_hidden_client_may_be(host: MigHost, tmp_path: Path) -> None:
    create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    host.card.busy_instance = 4  # the number of the instance, plus one
    with pytest.raises(StillInUse, match="In use by another client") as caught:
        destroy_piece(host.driver, tmp_path / "one", host.files)
    assert "nvidia-dcgm" in caught.value.hint
    host.card.busy_instance = 0
    destroy_piece(host.driver, tmp_path / "one", host.files)
    assert host.list_numbers() == []


def test_destroy_piece_believes_the_card_and_not_the_answer(host: MigHost, tmp_path: Path) -> None:
    create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    host.card.deaf = 1
    with pytest.raises(ServiceUnavailable, match="still there"):
        destroy_piece(host.driver, tmp_path / "one", host.files)
    assert read_record(tmp_path / "one") is not None, "it stays on record"


def test_create_piece_keeps_the_record_where_the_driver_may_have_created_it(
    host: MigHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = host.driver.create_instance

    def create_and_fail(card: str, profile_id: int, start: int, size: int) -> int:
        create(card, profile_id, start, size)
        raise DriverCallError("create", CallProblem.OTHER, "Timeout")

    before = host.snapshot()
    monkeypatch.setattr(host.driver, "create_instance", create_and_fail)
    with pytest.raises(DriverCallError, match="Timeout"):
        create_piece(host.driver, PIECE, tmp_path / "one", BOOT)
    destroy_piece(host.driver, tmp_path / "one", host.files)
    assert host.snapshot() == before
