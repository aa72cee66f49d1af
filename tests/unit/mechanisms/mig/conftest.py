"""Two H200 in MIG mode, on a stand-in for the driver."""

from tests.support.mig_fixtures import host, mechanism, mig_library

__all__ = ["host", "mechanism", "mig_library"]
