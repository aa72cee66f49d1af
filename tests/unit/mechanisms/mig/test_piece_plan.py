"""Plans the pieces of an allocation without changing a card."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.mig.piece_plan import plan_pieces
from gpupool.mechanisms.notes import NoteBook
from tests.support.mig_cards import CARDS, MigHost


def test_plan_pieces_avoids_what_another_tool_made(host: MigHost, tmp_path: Path) -> None:
    host.make_foreign("3g.71gb", 4)
    before = host.snapshot()
    (piece,) = plan_pieces(host.make_view("1g.18gb"), host.driver, NoteBook(tmp_path))
    assert (piece.card, piece.profile_id, piece.start) == (CARDS[0], 19, 3)
    assert host.snapshot() == before


def test_plan_pieces_takes_the_slot_that_the_scheduler_chose(host: MigHost, tmp_path: Path) -> None:
    (piece,) = plan_pieces(host.make_view("1g.18gb", start=0), host.driver, NoteBook(tmp_path))
    assert piece.start == 0


def test_plan_pieces_says_what_fills_the_card(host: MigHost, tmp_path: Path) -> None:
    host.make_foreign("7g.141gb", 0)
    with pytest.raises(RequestRejection, match=r"no open slot for 1g\.18gb: 7g\.141gb"):
        plan_pieces(host.make_view("1g.18gb"), host.driver, NoteBook(tmp_path))
