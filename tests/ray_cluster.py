"""Two machines of one processor each, simulated by Ray on this one."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def two_machines(**resources: Any) -> Iterator[Any]:
    """A cluster of two machines with ``resources`` beside the processor, which this process is connected to.

    Ray writes into HOME at its first start. A socket's path may have 107 bytes, of which Ray's own part takes 70: the
    folder of a test would be too deep.
    """
    short = Path("/tmp")
    with (
        tempfile.TemporaryDirectory(prefix="r", dir=short if short.is_dir() else None) as scratch,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("HOME", "RAY_TMPDIR"):
            patch.setenv(name, scratch)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        import ray
        from ray.cluster_utils import Cluster

        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **resources})
        try:
            found.add_node(num_cpus=1, **resources)
            ray.init(address=found.address, log_to_driver=False)
            yield found
        finally:
            ray.shutdown()
            found.shutdown()
