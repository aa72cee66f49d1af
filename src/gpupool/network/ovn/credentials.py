"""The certificate that this process shows to databases. A server has it in memory alone, in no file
system; a process on a machine of the engine reads the files of its daemons.

Open vSwitch's library has one certificate for a whole process, and reads it with each connection.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from gpupool.network.ovn.session import import_ovs

_lock: Final = threading.Lock()
#: By the library's setting, the open file that it reads.
_open_files: Final = dict[str, int]()


def show_certificate_files(private_key: str, certificate: str, trusted: str) -> None:
    """Show a certificate that is in files, which may be replaced; paths.

    Raises NetworkingUnavailable where the library is missing.
    """
    stream = import_ovs().stream.Stream
    stream.ssl_set_ca_cert_file(trusted)
    stream.ssl_set_private_key_file(private_key)
    stream.ssl_set_certificate_file(certificate)


def show_certificate(certificate: str, private_key: str, trusted: str) -> None:
    """Show a certificate from the next connection on; PEM texts.

    Raises NetworkingUnavailable where the library is missing.
    """
    stream = import_ovs().stream.Stream
    settings = {
        "ssl_set_ca_cert_file": trusted,
        "ssl_set_private_key_file": private_key,
        "ssl_set_certificate_file": certificate,
    }
    with _lock:
        for name, text in settings.items():
            if name not in _open_files:
                _open_files[name] = os.memfd_create(name, os.MFD_CLOEXEC)
            descriptor = _open_files[name]
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
            getattr(stream, name)(f"/proc/self/fd/{descriptor}")
