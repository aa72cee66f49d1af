"""An InfiniBand fabric that is simulated by ibsim, with the real subnet manager opensm.

The programs reach the simulator by a library that takes the place of the kernel's interface.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from gpupool.network.planes.partitions import read_port_keys
from tests.support.supervised import until

_LIBRARIES = sorted(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"))


def find_missing_fabric() -> str:
    """Say why no fabric can run here; empty: it can."""
    missing = [name for name in ("opensm", "ibsim", "smpquery") if shutil.which(name) is None]
    if missing or not _LIBRARIES:
        return "needs the packages opensm, ibsim-utils and infiniband-diags"
    return ""


class InfinibandFabric:
    """A switch with a port for each host; the first is that of the subnet manager."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self.hosts = hosts
        self._directory = Path(tempfile.mkdtemp(prefix="gpi-"))
        self._environment = {
            **os.environ,
            "IBSIM_SOCKNAME": f"gpupool-{os.getpid()}",
            "OSM_TMP_DIR": str(self._directory),
            "OSM_CACHE_DIR": str(self._directory),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        lines = [f'Switch\t{len(self.hosts)} "S1"']
        lines += [f'[{n}]\t"{host}"[1]' for n, host in enumerate(self.hosts, 1)]
        for n, host in enumerate(self.hosts, 1):
            lines += ["", f'Hca\t1 "{host}"', f'[1]\t"S1"[{n}]']
        plan = self._directory / "net"
        plan.write_text("\n".join(lines) + "\n")
        output = self._directory / "ibsim.log"
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                ["ibsim", "-s", "-n", str(plan)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        until(lambda: "Network simulator ready" in output.read_text(), "the simulator")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
        shutil.rmtree(self._directory)

    def read_guid(self, host: str) -> int:
        """Read the GUID of the port of a host."""
        text = self._run(host, "smpquery", "nodeinfo", "-D", "0")
        match = re.search(r"^PortGuid:\.*(0x[0-9a-f]+)$", text, re.MULTILINE)
        assert match is not None, text
        return int(match[1], 16)

    def read_keys(self, host: str) -> frozenset[int]:
        """Read the partition keys of the port of a host."""
        return read_port_keys(self._run(host, "smpquery", "pkeys", "-D", "0"))

    def run_manager(self, partitions: str) -> None:
        """Run opensm once with a partitions file: it gives all ports their keys."""
        path = self._directory / "partitions.conf"
        path.write_text(partitions)
        log = self._directory / "opensm.log"
        log.unlink(missing_ok=True)
        self._run(self.hosts[0], "opensm", "-o", "-P", str(path), "-f", str(log))
        assert "SUBNET UP" in log.read_text()

    def _run(self, host: str, *words: str) -> str:
        environment = {
            **self._environment,
            "SIM_HOST": host,
            "LD_PRELOAD": str(_LIBRARIES[0]),
        }
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout
