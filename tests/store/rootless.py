"""Root may write whatever the modes say; a test about modes gives that power up first."""

from __future__ import annotations

import ctypes
import os
import struct

LINUX_CAPABILITY_VERSION_3 = 0x20080522


def obey_modes() -> None:
    """This process obeys the modes of files from now on, as its owner.

    Another user would not do: it may not enter the environment that Python imports from.
    """
    if os.getuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", LINUX_CAPABILITY_VERSION_3, 0)
    no_capabilities = bytes(24)
    if libc.capset(header, no_capabilities) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")
