"""A profile of the controller is divided by what it worked on."""

from bench.kubernetes.parts import by_work

STACKS = """\
run (a.py:1);Controller._plan (gpupool/kubernetes/controller.py:3);cycle (x.py:2) 7
run (a.py:1);Writing._swap (gpupool/kubernetes/writing.py:3);dumps (json/__init__.py:2) 5
run (a.py:1);Writing._swap (gpupool/kubernetes/writing.py:3);Wire.send (gpupool/kubernetes/http_wire.py:2) 1
run (a.py:1);Line._read (gpupool/kubernetes/http_lines.py:2) 3
run (a.py:1);EpollSelector.select (selectors.py:468) 90
run (b.py:1);Condition.wait (threading.py:327) 70
run (a.py:1) 1
"""


def test_samples_count_for_the_work_and_waiting_is_none() -> None:
    assert by_work(STACKS) == {"plans": 7, "ledgers": 5, "connections": 4, "rest": 1}
