"""Where a pod stands, also while two controllers have written it into two ledgers."""

from gpupool.kubernetes.entry_index import EntryIndex


def test_a_pod_in_two_ledgers_stands_in_the_other_one_when_one_is_taken_back() -> None:
    index = EntryIndex()
    for node in ("n0", "n1"):
        index.enter("uid", node)
    assert index.node("uid") == "n1"
    index.leave("uid", "n1")
    assert index.node("uid") == "n0"
    index.leave("uid", "n0")
    assert "uid" not in index


def test_the_older_ledger_may_go_first_and_nothing_is_kept_of_it() -> None:
    index = EntryIndex()
    for node in ("n0", "n1"):
        index.enter("uid", node)
    for node in ("n0", "n9", "n1"):
        index.leave("uid", node)
    assert index.node("uid") == ""
    assert index._elsewhere == {}
