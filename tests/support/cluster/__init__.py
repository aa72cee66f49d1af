"""A real Kubernetes on this machine, for tests and benches: etcd, API server, controller manager
and scheduler, simulated nodes in any number, and as root one real node of kubelet, containerd and
runc.

Everything listens on 127.0.0.1 (the kubelet on a bridge of its own) and lives in one directory.
Whatever the rig changes outside of it is written down before it is changed, and every process
carries the directory's name in its environment: `down` needs nothing else, so it also clears up
after a kill -9 at any line.

    python -m tests.support.cluster build | up | nodes | status | down        (--help says more)

This package imports no product code.
"""
