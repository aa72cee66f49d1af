"""Where a pod stands, also while two controllers have written it into two ledgers."""

from gpupool.kubernetes.standing import Standing


def test_a_pod_in_two_ledgers_stands_in_the_other_one_when_one_is_taken_back() -> None:
    standing = Standing()
    for node in ("n0", "n1"):
        standing.enter("uid", node)
    assert standing.node("uid") == "n1"
    standing.leave("uid", "n1")
    assert standing.node("uid") == "n0"
    standing.leave("uid", "n0")
    assert "uid" not in standing


def test_the_older_ledger_may_go_first_and_nothing_is_kept_of_it() -> None:
    standing = Standing()
    for node in ("n0", "n1"):
        standing.enter("uid", node)
    for node in ("n0", "n9", "n1"):
        standing.leave("uid", node)
    assert standing.node("uid") == ""
    assert standing._elsewhere == {}
