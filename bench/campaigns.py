"""What the records of campaigns of kills have in common."""

import datetime
import os
import platform
import subprocess


def circumstances(seed: int, seconds: float, again: str) -> str:
    """Of a campaign of kills, with what is needed to do it again; `again` says how often it began
    anew."""
    describe = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    return (
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, commit {commit}, {os.cpu_count()} CPUs, "
        f"Linux {platform.release()}, Python {platform.python_version()}. First seed {seed}, {seconds:.0f} s, {again}."
    )
