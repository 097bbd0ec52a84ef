"""How many threads a command uses: as many as there are free cores, so that it does not fight other programs."""

import os
import time
from pathlib import Path
from statistics import median

LOAD = Path("/proc/loadavg")  # its fourth field is "running/all" tasks, this one among the running


def use_free_cores() -> None:
    """Set OMP_NUM_THREADS for the libraries that a command will load, unless the user has."""
    os.environ.setdefault("OMP_NUM_THREADS", str(free_cores()))


def free_cores() -> int:
    """Cores this process may use less those that others keep busy right now; at least one."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, allowed - _busy())


def _busy() -> int:
    """Other tasks that are running, the median of a few samples; 0 where the system does not tell."""
    seen = []
    try:
        for _ in range(5):
            seen.append(int(LOAD.read_text().split()[3].partition("/")[0]) - 1)
            time.sleep(0.004)
    except (OSError, ValueError, IndexError):
        return 0
    return max(0, round(median(seen)))
