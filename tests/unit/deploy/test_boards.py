"""Boards of Grafana: they name families, labels and variables that exist, and panels do not overlap."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.links import ROOT
from tests.support.promql import list_faults, list_labels, read_families

FOLDER = ROOT / "deploy" / "grafana"
BOARDS = ("capacity", "cards", "money", "queue", "services", "tenants")
VARIABLE = re.compile(r"\$(?!__)([a-z]\w*)")
FAMILIES = re.compile(r'__name__=~"([^"]+)"')
LEGEND = re.compile(r"\{\{(\w+)\}\}")


def read_board(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


def list_targets(board: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target


def test_every_file_is_a_board_that_is_tested() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(BOARDS)
    uids = {read_board(name)["uid"] for name in BOARDS}
    assert len(uids) == len(BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_expressions_name_families_labels_and_variables_that_exist(name: str) -> None:
    board = read_board(name)
    families = read_families()
    defined = {variable["name"] for variable in board["templating"]["list"]}
    for title, target in list_targets(board):
        expression = target["expr"]
        assert list_faults(expression, families) == [], title
        assert set(VARIABLE.findall(expression)) <= defined, title
        shown = set(LEGEND.findall(target["legendFormat"]))
        assert shown <= list_labels(expression, families), title


@pytest.mark.parametrize("name", BOARDS)
def test_variables_offer_labels_of_families_that_exist_and_are_used(name: str) -> None:
    board = read_board(name)
    families = read_families()
    text = json.dumps(board["panels"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "datasource":
            assert f"${{{variable['name']}}}" in text
            continue
        assert f"${variable['name']}" in text
        for family in FAMILIES.findall(variable["definition"])[0].split("|"):
            assert variable["name"] in families[family] | {"job"}


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_their_own_number_and_place(name: str) -> None:
    panels = read_board(name)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, panel["title"]
                taken.add((x, y))
