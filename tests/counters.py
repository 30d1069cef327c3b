"""What the system counts: peak memory of a process, bytes sent over the loopback."""

import contextlib
import sys
from pathlib import Path


def peak_resident(*, reset: bool = False) -> int:
    """Peak resident bytes of this process, counted anew from here on where `reset` can do so.

    Linux keeps the parent's peak in a spawned child's ru_maxrss, so that /proc is asked first.
    """
    status = Path("/proc/self/status")
    if status.exists():
        if reset:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")
        line = next(line for line in status.read_text().splitlines() if "VmHWM" in line)
        return 1024 * int(line.split()[1])
    import resource  # absent on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def sent_over_loopback() -> int:
    """Bytes that all processes of this machine have sent to it, as Linux counts them."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[8])
    raise OSError("/proc/net/dev has no loopback; the bytes of a cluster are counted on Linux")
