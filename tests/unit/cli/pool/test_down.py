"""`gpupool down` by somebody who may not stop the server: refused before anything is ended."""

from __future__ import annotations

import os

import pytest

from gpupool.base.errors import NoPermission
from gpupool.cli.pool import down


def test_a_server_of_ones_own_may_be_stopped() -> None:
    down.check_may_stop(os.getpid())


def test_a_server_that_is_gone_already_is_no_reason_to_refuse() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    down.check_may_stop(child)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_users_server_is_refused_with_its_number() -> None:
    child = os.fork()
    if child == 0:
        os.setresuid(54321, 54321, 54321)
        try:
            down.check_may_stop(1)
        except NoPermission as error:
            os._exit(0 if "pid 1" in error.message and "nothing was ended" in error.message else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
