"""Which limits a process can give to what it starts: those that the kernel lets it raise."""

from __future__ import annotations

import json
import os
import resource

from gpupool.base.own_limits import fixed_hard_limits

HARD = 200


def as_nobody() -> dict[str, int]:
    """What a process without rights finds, whose hard limit of files is 200."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, HARD))
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        found = fixed_hard_limits()
        after = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.write(write, json.dumps({**found, "after": after}).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        text = said.read()
    os.waitpid(child, 0)
    found = json.loads(text)
    assert found.pop("after") == [100, HARD]
    return dict(found)


def test_a_process_without_the_right_cannot_raise_its_hard_limits() -> None:
    assert as_nobody()["nofile"] == HARD


def test_asking_changes_no_limit() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    fixed_hard_limits()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
