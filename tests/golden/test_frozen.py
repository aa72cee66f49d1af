"""What is public stays as it is while code moves: plans of seeded traces, the database's schema,
kinds of events.

Other public records have tests of their own: `tests/unit/cli/`, `docs/reference/`
(OpenAPI, errors, the command line), `deploy/` (definitions and chart),
`tests/golden/metrics_names*.txt`. `GPUPOOL_UPDATE_GOLDEN=1` writes a record anew, to be read in the
diff.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import sqlalchemy as sa

from gpupool.server.migrate import prepare_database
from gpupool.simulation.studies.decisions import COLUMNS, record_life
from gpupool.simulation.studies.study import StudyCase, StudyQuestion
from gpupool.simulation.traces.nodes import read_nodes
from gpupool.simulation.traces.synthetic import TraceParameters
from gpupool.store.engines import connect, sqlite_url

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src" / "gpupool"
SMALL = {
    "days": 1,
    "cards": 8,
    "cards_per_node": 4,
    "median_seconds": 7200,
    "longest_seconds": 21600,
}
#: By name: nodes, policy, seed and parameters of a made-up trace.
TRACES: dict[str, tuple[str, str, int, dict[str, int]]] = {
    **{
        f"{policy}": ("2x4xH200", policy, 42, {})
        for policy in ("default", "fgd", "binpack", "spread", "best-fit")
    },
    **{
        f"{policy}": ("2x4xH200", policy, 43, {})
        for policy in ("gpu-packing", "gpu-clustering", "dot-product")
    },
    **{
        f"{policy}": ("2x4xH200", policy, 44, {})
        for policy in ("default+power", "fgd+price", "power", "random")
    },
    "crowded": ("2x4xH200", "default", 45, {"load_pct": 150}),
    "idle": ("2x4xH200", "default", 46, {"load_pct": 50}),
    "shares": (
        "2x4xH200",
        "default",
        47,
        {"share_pct": 100, "one_card_pct": 0, "several_pct": 0, "gang_pct": 0},
    ),
    "gangs": (
        "2x4xH200",
        "default",
        48,
        {"share_pct": 20, "one_card_pct": 20, "several_pct": 20, "gang_pct": 40},
    ),
    "priorities": ("2x4xH200", "default", 49, {"low_pct": 50, "high_pct": 30, "load_pct": 140}),
    "two-models": ("1x4xH200+1x4xA100-40G", "default", 50, {}),
    "small-nodes": ("4x2xL40S", "default", 51, {"cards_per_node": 2}),
    "partitions": ("2x4xH200:mig", "default", 52, {"share_pct": 20, "partition_pct": 30}),
}
KINDS = re.compile(
    r"[\"']((?:array|card|cohort|defrag|gang|job|node|pool|quota|reservation|tenant|token|user)\.[a-z_]+)[\"']"
)
#: Places in the document of a template, which are spelled alike.
PLACES = {"gang.minimum", "gang.size", "job.argv", "job.mounts"}
FILES = ("db", "json", "lock", "log", "sh", "tmp")
SENTENCES = ("score", "parts", "reason")


def compare(name: str, found: object) -> None:
    """Fail unless a value is the recorded one."""
    file = HERE / "frozen" / f"{name}.json"
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    if os.environ.get("GPUPOOL_UPDATE_GOLDEN") == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert json.loads(text) == json.loads(file.read_text()), (
        f"{file} differs; GPUPOOL_UPDATE_GOLDEN=1 writes it anew"
    )


def plans_digest(name: str) -> str:
    """The SHA-256 of every decision of one life: when, what, which claim, which node and cards, how
    much."""
    nodes, policy, seed, changed = TRACES[name]
    parameters = TraceParameters(**{**SMALL, **changed})
    question = StudyQuestion(read_nodes(nodes), (policy,), (seed,), synthetic=parameters)
    _, _, rows = record_life(StudyCase(question, policy, seed), lambda _part: None)
    kept = [number for number, column in enumerate(COLUMNS) if column not in SENTENCES]
    lines = [json.dumps([row[number] for number in kept], default=str) for row in rows]
    assert len(lines) > 20
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_plans_of_seeded_traces_are_as_recorded() -> None:
    compare("plans", {name: plans_digest(name) for name in TRACES})


def test_the_database_schema_is_as_recorded(tmp_path: Path) -> None:
    engine = connect(sqlite_url(tmp_path / "pool.db"))
    prepare_database(engine, 1, "p-first")
    with engine.connect() as connection:
        rows = connection.execute(
            sa.text("select type, name, sql from sqlite_master where sql is not null")
        )
        found = {f"{kind} {name}": " ".join(text.split()) for kind, name, text in rows}
    compare("schema", found)


def test_kinds_of_events_are_as_recorded() -> None:
    found = {
        kind
        for path in SOURCES.rglob("*.py")
        for kind in KINDS.findall(path.read_text(encoding="utf-8"))
    } - PLACES
    compare("event_kinds", sorted(kind for kind in found if kind.rpartition(".")[2] not in FILES))
