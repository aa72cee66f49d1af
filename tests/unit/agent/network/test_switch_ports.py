"""Settings of a switch, in a real database of one."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from gpupool.agent.network.daemons import DATABASE_SCHEMAS
from gpupool.agent.network.switch_ports import REMOTE, SwitchPorts
from tests.support.ovsdb import find_missing_part, is_listening
from tests.support.supervised import until

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())


@pytest.fixture
def ports() -> Iterator[SwitchPorts]:
    # A socket's path has 107 bytes at most, which a directory of pytest may exceed.
    with tempfile.TemporaryDirectory(prefix="gps-") as directory:
        file = f"{directory}/switch.db"
        path = f"{directory}/switch.sock"
        subprocess.run(["ovsdb-tool", "create", file, DATABASE_SCHEMAS["switch"][0]], check=True)
        words = ["ovsdb-server", file, f"--remote=punix:{path}", f"--unixctl={directory}/ctl"]
        server = subprocess.Popen([*words, "-vconsole:off"])
        try:
            until(lambda: is_listening(path))
            made = SwitchPorts(f"unix:{path}")
            yield made
            made.close()
        finally:
            server.kill()
            server.wait()


def test_servers_keep_the_order_of_the_last_rotation_until_others_are_written(
    ports: SwitchPorts,
) -> None:
    assert ports.read_setting(REMOTE) == ""
    ports.rotate_servers()
    ports.write_settings({"system-id": "here"})
    ports.rotate_servers()
    assert ports.read_setting(REMOTE) == ""
    ports.write_settings({REMOTE: "a,b,c"})
    ports.rotate_servers()
    assert ports.read_setting(REMOTE) == "b,c,a"
    ports.write_settings({REMOTE: "a,b,c", "ovn-encap-type": "geneve"})
    assert ports.read_setting(REMOTE) == "b,c,a"
    ports.write_settings({"ovn-encap-type": "geneve"})
    assert ports.read_setting(REMOTE) == "b,c,a"
    ports.write_settings({REMOTE: "a"})
    ports.rotate_servers()
    assert ports.read_setting(REMOTE) == "a"
    assert ports.read_setting("system-id") == "here"
