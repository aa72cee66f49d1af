"""What every test may use. Fixtures of one room live with its tests."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.file_order",
    "tests.sampled",
    "tests.support.postgres_fixtures",
    "tests.unit.native.kernel_fixtures",
]

# How long an example takes says how busy the machine is: the first text that is drawn alone may
# take a second there.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# Outputs are compared in English, whatever the locale of the machine; tests of Chinese set it.
os.environ["GPUPOOL_LANG"] = "en"

for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    # Programs under test inherit what is ignored, and a runner in the background of a script
    # ignores Ctrl-C.
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(
            _number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL
        )


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are processors: many tests wait for programs that they
    started."""
    return (os.cpu_count() or 1) * 3 // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need root say so, and say why they did not run where nobody is."""
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs uid 0"))
