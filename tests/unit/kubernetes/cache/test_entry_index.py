"""Where a pod stands, also while two controllers have written it into two ledgers."""

from gpupool.kubernetes.cache.entry_index import EntryIndex


def test_a_pod_in_two_ledgers_stands_in_the_other_one_when_one_is_taken_back() -> None:
    index = EntryIndex()
    for node in ("n0", "n1"):
        index.add_entry("uid", node)
    assert index.node_of("uid") == "n1"
    index.remove_entry("uid", "n1")
    assert index.node_of("uid") == "n0"
    index.remove_entry("uid", "n0")
    assert "uid" not in index


def test_the_older_ledger_may_go_first_and_nothing_is_kept_of_it() -> None:
    index = EntryIndex()
    for node in ("n0", "n1"):
        index.add_entry("uid", node)
    for node in ("n0", "n9", "n1"):
        index.remove_entry("uid", node)
    assert index.node_of("uid") == ""
    assert index._elsewhere == {}
