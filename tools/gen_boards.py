"""Writes the boards of Grafana (`tools/boards`) to deploy/grafana, one JSON file each."""

from __future__ import annotations

import json
import sys

from boards.catalogue import BOARDS
from boards.panels import build_board
from generated import ROOT, write_or_check

FOLDER = ROOT / "deploy" / "grafana"


if __name__ == "__main__":
    made = {}
    for board in BOARDS:
        text = json.dumps(build_board(board), indent=2, ensure_ascii=False)
        made[FOLDER / f"{board.name}.json"] = text + "\n"
    sys.exit(write_or_check(made))
