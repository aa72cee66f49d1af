"""A profile of the controller is divided by what it worked on."""

from bench.kubernetes.parts import by_work

STACKS = """\
run (a.py:1);Controller._make_plan (gpupool/kubernetes/controller/controller.py:3);cycle (x.py:2) 7
run (a.py:1);LedgerWriter._swap_entries (controller/ledger_writer.py:3);dumps (json/__init__.py:2) 5
run (a.py:1);LedgerWriter._swap_entries (ledger_writer.py:3);PlainSocket.send (client/http_pool.py:2) 1
run (a.py:1);HttpConnection._read (gpupool/kubernetes/client/http_connection.py:2) 3
run (a.py:1);EpollSelector.select (selectors.py:468) 90
run (b.py:1);Condition.wait (threading.py:327) 70
run (a.py:1) 1
"""


def test_samples_count_for_the_work_and_waiting_is_none() -> None:
    assert by_work(STACKS) == {"plans": 7, "ledgers": 5, "connections": 4, "rest": 1}
