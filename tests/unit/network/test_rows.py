"""Plans of changes: applied they give what is wanted, and then there is nothing left to do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpupool.network.rows import ChangeSet, NorthboundRow, plan_changes

NAMES = st.sampled_from(["a", "b", "c", "d"])
ROWS = st.dictionaries(
    NAMES,
    st.builds(
        lambda table, name, refs: (table, {"name": name}, {"ports": frozenset(refs)}),
        st.sampled_from(["Logical_Switch", "Logical_Router"]),
        st.sampled_from(["x", "y"]),
        st.sets(NAMES, max_size=3),
    ),
)


def make_rows(
    drawn: dict[str, tuple[str, dict[str, str], dict[str, frozenset[str]]]],
) -> dict[str, NorthboundRow]:
    return {key: NorthboundRow(row[0], key, row[1], row[2]) for key, row in drawn.items()}


def apply_changes(rows: dict[str, NorthboundRow], changes: ChangeSet) -> dict[str, NorthboundRow]:
    found = dict(rows)
    for row in changes.deleted:
        del found[row.key]
    for update in changes.updated:
        before = found[update.key]
        references = dict(before.references)
        for column, keys in update.added.items():
            references[column] = references.get(column, frozenset()) | keys
        for column, keys in update.removed.items():
            references[column] = references[column] - keys
        found[update.key] = NorthboundRow(
            before.table, before.key, {**before.columns, **update.columns}, references
        )
    for row in changes.created:
        assert row.key not in found
        found[row.key] = row
    return found


@given(ROWS, ROWS)
def test_a_plan_makes_the_rows_the_wanted_ones_and_is_idempotent(
    before: dict[str, tuple[str, dict[str, str], dict[str, frozenset[str]]]],
    after: dict[str, tuple[str, dict[str, str], dict[str, frozenset[str]]]],
) -> None:
    observed = make_rows(before)
    wanted = make_rows(after)
    reached = apply_changes(observed, plan_changes(wanted.values(), observed))
    assert reached == wanted
    assert not plan_changes(wanted.values(), reached)


def test_a_plan_for_a_set_names_only_what_joins_and_what_leaves() -> None:
    observed = make_rows({"a": ("Logical_Switch", {"name": "x"}, {"ports": frozenset("bc")})})
    wanted = make_rows({"a": ("Logical_Switch", {"name": "x"}, {"ports": frozenset("cd")})})
    (update,) = plan_changes(wanted.values(), observed).updated
    assert update.columns == {}
    assert update.added == {"ports": frozenset("d")}
    assert update.removed == {"ports": frozenset("b")}
