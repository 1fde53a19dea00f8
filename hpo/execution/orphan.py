"""No process outlives the one it works for."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""

LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies; end at once if it already has.

    Linux only; elsewhere a closed channel ends the process at its next message.

    Args:
        parent: the parent's process ID, read before this process began.
    """
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
