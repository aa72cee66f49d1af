"""What an XID says about a card."""

from gpupool.model.device import DeviceHealth
from gpupool.probes.nvml import judge_xid


def test_an_unlisted_xid_is_a_warning() -> None:
    assert judge_xid(7)[0] is DeviceHealth.WARNING
