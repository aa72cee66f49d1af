"""Parts of a board of Grafana: panels, queries, variables, and their place on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: Columns of Grafana's grid, and the rows of a stat and of a graph.
COLUMNS = 24
STAT_ROWS = 4
GRAPH_ROWS = 8
#: Grafana's schema of dashboards: that of Grafana 10 and 11, which later ones read.
SCHEMA = 39
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: The value of a variable with which every choice is meant.
ALL = "$__all"


@dataclass(frozen=True)
class Query:
    """An expression, and the name of its series in the legend."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        kind: a type of Grafana: stat, timeseries, bargauge or table.
        red_from: value from which it is red; None: never.
        red_below: whether a value below 0 is red too.
    """

    kind: str
    title: str
    queries: Sequence[Query]
    unit: str = "short"
    width: int = 8
    description: str = ""
    red_from: float | None = None
    red_below: bool = False
    is_stacked: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    #: Of a table: new names of its columns, by name.
    columns: dict[str, str] = field(default_factory=dict)
    #: Of a table: units by new name of a column.
    units: dict[str, str] = field(default_factory=dict)

    @property
    def height(self) -> int:
        return STAT_ROWS if self.kind == "stat" else GRAPH_ROWS


@dataclass(frozen=True)
class Row:
    """A heading, with the panels below it."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Variable:
    """A choice at the top of the board: the values of a label in any of some families."""

    label: str
    families: Sequence[str]


@dataclass(frozen=True)
class Board:
    """A whole board."""

    name: str
    title: str
    description: str
    variables: Sequence[Variable]
    rows: Sequence[Row]


def build_board(board: Board) -> dict[str, Any]:
    """Build the model of a board as Grafana imports it."""
    return {
        "uid": f"gpupool-{board.name}",
        "title": f"gpupool / {board.title}",
        "description": board.description,
        "tags": ["gpupool"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [_build_links()],
        "templating": {"list": [_build_source(), *map(_build_variable, board.variables)]},
        "panels": _place_rows(board.rows),
    }


def _build_links() -> dict[str, Any]:
    return {
        "type": "dashboards",
        "title": "gpupool",
        "tags": ["gpupool"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
    }


def _build_source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
    }


def _build_variable(variable: Variable) -> dict[str, Any]:
    # Later variables offer what the chosen jobs have.
    matchers = [f'__name__=~"{"|".join(variable.families)}"']
    if variable.label != "job":
        matchers.append('job=~"$job"')
    query = f"label_values({{{','.join(matchers)}}}, {variable.label})"
    return {
        "name": variable.label,
        "label": variable.label.replace("_", " ").capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": variable.label},
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": [ALL]},
        "refresh": 2,
        "sort": 1,
    }


def _place_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Place panels from left to right; a panel that has no room begins a line."""
    placed: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        number = len(placed) + 1
        placed.append(
            {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place}
        )
        top += 1
        left = 0
        height = 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top += height
                left = 0
                height = 0
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            placed.append(_build_panel(panel, len(placed) + 1, place))
            left += panel.width
            height = max(height, panel.height)
        top += height
    return placed


def _build_panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    is_table = panel.kind == "table"
    is_instant = panel.kind != "timeseries"
    targets = []
    for index, query in enumerate(panel.queries):
        target = {
            "refId": chr(ord("A") + index),
            "datasource": SOURCE,
            "expr": query.expr,
            "legendFormat": query.legend or "__auto",
            "instant": is_instant,
            "range": not is_instant,
        }
        if is_table:
            target["format"] = "table"
        targets.append(target)
    built: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": _build_defaults(panel), "overrides": _build_overrides(panel)},
        "options": {**_build_options(panel.kind), **panel.options},
    }
    if is_table:
        built["transformations"] = _build_transformations(panel)
    return built


def _build_defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_below:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": 0}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    # A figure that is not known is shown as such, never as 0.
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "noValue": "--",
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.unit == "percentunit":
        defaults["min"] = 0
    if panel.kind == "timeseries":
        stacking = {"group": "A", "mode": "normal" if panel.is_stacked else "none"}
        fill = 30 if panel.is_stacked else 5
        defaults["color"] = {"mode": "palette-classic"}
        defaults["custom"] = {"fillOpacity": fill, "showPoints": "never", "stacking": stacking}
    return defaults


def _build_overrides(panel: Panel) -> list[dict[str, Any]]:
    overrides = []
    for column, unit in panel.units.items():
        matcher = {"id": "byName", "options": column}
        overrides.append({"matcher": matcher, "properties": [{"id": "unit", "value": unit}]})
    return overrides


def _build_options(kind: str) -> dict[str, Any]:
    latest = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if kind == "stat":
        return {"colorMode": "value", "graphMode": "none", "reduceOptions": latest}
    if kind == "bargauge":
        return {"displayMode": "gradient", "orientation": "horizontal", "reduceOptions": latest}
    if kind == "table":
        return {"showHeader": True, "footer": {"show": False}}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _build_transformations(panel: Panel) -> list[dict[str, Any]]:
    # The first query is for its labels: its value is 1 for every row.
    hidden = ("Time", "__name__", "instance", "job", "Value #A")
    order = {name: index for index, name in enumerate(panel.columns)}
    organize = {
        "excludeByName": dict.fromkeys(hidden, True),
        "indexByName": order,
        "renameByName": panel.columns,
    }
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]
