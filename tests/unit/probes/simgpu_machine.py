"""The simulated machine of two T4 cards whose file the tests make, read and damage."""

from gpupool.probes.contract import Machine
from gpupool.probes.simulated import parse_sim

MACHINE: Machine = parse_sim("2xT4")[0]
FIRST, SECOND = (device.uuid for device in MACHINE.devices)
#: Bytes that a context takes on a T4.
T4_CONTEXT = 120 << 20
