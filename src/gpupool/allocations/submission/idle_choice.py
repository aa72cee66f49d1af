"""Checks a claim that agrees to be suspended while idle, and reserves the main memory for it."""

from __future__ import annotations

from gpupool.base.errors import BadOption
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.wire.submissions import JobIn


def reserve_moved_memory(body: JobIn, rules: IdleSuspensionRules) -> JobIn:
    """Return the request with main memory for what may be moved off its cards.

    The driver keeps the copy in the job's own processes. So it is reserved from the start, in the
    ledger and in the job's limit: a suspend never finds that others have taken it. Any other
    request is returned as it is.

    Raises:
        BadOption: The claim cannot be suspended, or does not say how much memory it needs.
    """
    if body.idle_seconds is None:
        return body
    if body.idle_seconds < rules.floor_seconds:
        raise BadOption(
            f"--idle-after {body.idle_seconds}s: this pool suspends no job before it was idle "
            f"for {rules.floor_seconds} s",
            hint=f"write --idle-after {rules.floor_seconds}s or more",
        )
    _check_kind(body)
    shape = body.shape
    if shape.memory_bytes is None or not shape.host_bytes:
        raise BadOption(
            "--when-idle suspend needs --memory and --host-memory: main memory is reserved for both "
            "together",
            hint="write --memory 8GiB --host-memory 4GiB; the second is what the program itself needs",
        )
    moved = shape.memory_bytes * shape.count
    together = shape.host_bytes + moved
    return body.model_copy(update={"shape": shape.model_copy(update={"host_bytes": together})})


def _check_kind(body: JobIn) -> None:
    """Raise BadOption for a job that its node would refuse to suspend."""
    unsuitable = {
        "a gang": body.gang is not None,
        "a partition": body.shape.profile is not None,
        "--sharing mps": body.shape.sharing == "mps",
        "a container": body.launch.container is not None,
        "a virtual machine": body.launch.vm is not None,
        "--no-fence": not body.fence,
    }
    for what, is_asked in unsuitable.items():
        if is_asked:
            raise BadOption(
                f"--when-idle suspend and {what}: such a job cannot be suspended",
                hint="leave out one of the two",
            )
