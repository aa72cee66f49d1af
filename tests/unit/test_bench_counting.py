"""Counting work on SQLite: statements, rows and steps are what really happened, and end with the
counting."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from bench.counting import counting, query_plans

metadata = sa.MetaData()
things = sa.Table(
    "things", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String)
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'things.db'}")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(things.insert(), [{"name": f"thing {n}"} for n in range(1000)])
    yield engine
    engine.dispose()


def test_statements_and_the_rows_they_hand_out_are_counted(engine: sa.Engine) -> None:
    with counting(engine) as counts, engine.connect() as connection:
        connection.execute(sa.select(things).limit(7)).all()
        connection.execute(sa.select(things).where(things.c.id == 1)).one()
    assert (counts.statements, counts.rows) == (2, 8)


def test_nothing_is_counted_before_and_after(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.execute(sa.select(things)).all()
        with counting(engine) as counts:
            pass
        connection.execute(sa.select(things)).all()
    assert (counts.statements, counts.rows, counts.steps) == (0, 0, 0)


def test_a_table_that_is_read_whole_shows_in_the_steps_whatever_comes_out_of_it(
    engine: sa.Engine,
) -> None:
    def steps(where: sa.ColumnElement[bool]) -> int:
        with counting(engine) as counts, engine.connect() as connection:
            connection.execute(sa.select(things).where(where)).one()
        assert counts.rows == 1
        return counts.steps

    assert steps(things.c.name == "thing 999") > 100 * max(1, steps(things.c.id == 1000) // 10)


def test_the_plan_says_which_table_is_read_whole(engine: sa.Engine) -> None:
    with counting(engine) as counts, engine.connect() as connection:
        connection.execute(sa.select(things).where(things.c.name == "thing 3")).all()
        connection.execute(sa.select(things).where(things.c.id == 3)).all()
    scan, search = query_plans(engine, counts)
    assert scan.startswith("SCAN things")
    assert search.startswith("SEARCH things USING INTEGER PRIMARY KEY")


def test_a_statement_for_many_rows_is_one_statement(engine: sa.Engine) -> None:
    with counting(engine) as counts, engine.begin() as connection:
        connection.execute(things.insert(), [{"name": "a"}, {"name": "b"}])
    assert counts.statements == 1
