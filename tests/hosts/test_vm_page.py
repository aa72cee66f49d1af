"""The commands of the page about virtual machines, typed in order on a pool of simulated cards."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.hosts import guest
from tests.support import pages
from tests.support.typed_commands import commands

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(bool(guest.find_missing_part()), reason=guest.find_missing_part()),
]
#: What is added to a command: the image of this test has no program for the power button, and no
#: terminal can be asked.
ADDED = {"vm stop": ["--grace", "1s"], "vm delete": ["--yes"]}
#: They need a guest with an SSH server, or a terminal; tests/hosts/test_vm.py uses the console.
ELSEWHERE = ("vm ssh", "vm console")


def test_the_commands_of_the_page_are_accepted_in_their_order(tmp_path: Path) -> None:
    image = tmp_path / "debian-12.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "64M"], check=True)
    (tmp_path / "id_ed25519.pub").write_text("ssh-ed25519 AAAAC3Nza me@host\n")
    with RealPool(tmp_path / "pool", "1xH200") as pool:
        for words in commands(pages.PAGES / "virtual-machines.md"):
            typed = " ".join(words)
            if typed.startswith(ELSEWHERE):
                continue
            more = ADDED.get(" ".join(words[:2]), [])
            done = pool.run(*words, *more, cwd=tmp_path)
            assert done.returncode == 0, f"gpupool {typed}\n{done.stdout}{done.stderr}"
            if words[:2] in (["vm", "run"], ["vm", "start"]):
                pool.until_state("dev", "running")
        assert pool.json("vm", "list") == []
