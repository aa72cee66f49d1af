"""What ovn-controller knows of the databases: whether it is connected, and when it has to forget.

It reads nothing from a database server whose log is shorter than what it has read before, which is
right within one cluster: that server lags behind. But the log of a new cluster is shorter than that
of the cluster before, and a controller that has read the older one would wait until it has grown.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.network.ovn.control import ask_controller, is_controller_connected
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork

#: Setting of the switch's own row: the cluster whose log the controller may remember.
_CLUSTER: Final = "gpupool-cluster"
#: Seconds between two looks at a connection that is waited for.
_LOOK_SECONDS: Final = 0.1


def describe_connection(run: Path, work: NetworkEngineWork) -> dict[str, str]:
    """Describe whether the controller is connected, as fields of the engine's report.

    Args:
        run: the directory of the controller's socket.
    """
    if is_controller_connected(run):
        return {"state": "ready", "reason": ""}
    is_centre = "," not in work.southbound and not work.is_external
    where = "centre" if is_centre else "databases"
    fields = {
        "state": "starting",
        "reason": f"not connected to the {where} at {work.southbound}: traffic goes on, "
        "changes wait",
    }
    # Eight servers of IPv6 are longer than what a report may say, and the server refuses all of it.
    return {**fields, "reason": fields["reason"][:400]}


def wait_for_connection(
    run: Path, work: NetworkEngineWork, report: NetworkEngineReport, seconds: float
) -> NetworkEngineReport:
    """Wait until the controller is connected, and return the report with how that is."""
    deadline = time.monotonic() + seconds
    while True:
        found = report.model_copy(update=describe_connection(run, work))
        if found.state == "ready" or time.monotonic() >= deadline:
            return found
        time.sleep(_LOOK_SECONDS)


def forget_other_cluster(ports: SwitchPorts, run: Path, cluster: int) -> None:
    """Let the controller forget how long the log of another cluster was. Idempotent.

    To be called once the switch's settings name the new servers: a controller that is not up
    begins with these and has nothing to forget.

    Args:
        run: the directory of the controller's socket.
        cluster: number of the cluster that it is to read; 0: databases without a cluster.
    """
    number = str(cluster)
    if (ports.read_setting(_CLUSTER) or "0") == number:
        return
    ask_controller(run, "sb-cluster-state-reset")
    # An agent that is killed before this line asks again.
    ports.write_settings({_CLUSTER: number})
