"""What a submission demands of the mechanism, from the options as typed."""

from __future__ import annotations

from gpupool.base.errors import BadOption

#: Values of `model.isolation.claim_needs`, without its import.
ISOLATION = ("none", "soft", "hard", "fault")
GOALS = ("latency", "throughput", "density")
HOSTS = ("process", "container", "vm")


def needs_of_claim(isolation: str | None, goal: str | None, host: str | None) -> dict[str, str]:
    """What is demanded of the mechanism; empty where nothing is. Raises BadOption."""
    needs: dict[str, str] = {}
    for name, value, known in (
        ("isolation", isolation, ISOLATION),
        ("goal", goal, GOALS),
        ("host", host, HOSTS),
    ):
        if value is None:
            continue
        if value not in known:
            raise BadOption(f"--{name} {value!r} is not known", hint=f"one of: {', '.join(known)}")
        needs[name] = value
    return needs
