"""A profile of the controller is divided by what it worked on."""

from bench.kubernetes.parts import by_work

STACKS = """\
run (a.py:1);Controller._plan (gpupool/kubernetes/controller.py:3);cycle (x.py:2) 7
run (a.py:1);Writing._swap (gpupool/kubernetes/writing.py:3);_SSLProtocolTransport.write (asyncio/sslproto.py:2) 5
run (a.py:1);_SelectorSocketTransport._read_ready (asyncio/selector_events.py:2) 4
run (a.py:1);EpollSelector.select (selectors.py:468) 90
run (a.py:1) 1
"""


def test_samples_count_for_the_work_and_waiting_is_none() -> None:
    assert by_work(STACKS) == {"plans": 7, "ledgers": 5, "connections": 4, "rest": 1}
