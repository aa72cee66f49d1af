"""The job of a replica: the service's, with the replica's port and name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpupool.wire.submissions import JobIn

#: Stands for the replica's port in the command and its environment.
PORT_TEXT: Final = "{port}"
#: Variables of every replica.
PORT_VARIABLE: Final = "PORT"
SERVICE_VARIABLE: Final = "GPUPOOL_SERVICE"


def make_replica_job(body: Mapping[str, Any], service: str, number: int, port: int) -> JobIn:
    """Return the job of a replica.

    Args:
        body: A `JobIn` as JSON, with `{port}` where the port belongs.
        service: The service's name, from which the job's is made.
        number: The replica's.
        port: On which it listens.
    """
    launch = dict(body["launch"])
    launch["argv"] = [word.replace(PORT_TEXT, str(port)) for word in launch["argv"]]
    variables = {
        name: text.replace(PORT_TEXT, str(port)) for name, text in launch.get("env", {}).items()
    }
    launch["env"] = {**variables, PORT_VARIABLE: str(port), SERVICE_VARIABLE: service}
    return JobIn.model_validate({**body, "launch": launch, "name": f"{service[:50]}-{number}"})
