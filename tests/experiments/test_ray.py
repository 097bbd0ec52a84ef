"""Ray: two machines simulated on one, one of them lost half-way; every row arrives, once."""

import importlib.util

import pytest

from fewnode.errors import InputError
from fewnode.experiments import rows as results
from fewnode.experiments import runners as cluster
from fewnode.experiments.grid import Run
from fewnode.experiments.runners import Session
from fewnode.experiments.worker import Finished

HAS_RAY = importlib.util.find_spec("ray") is not None


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_extra_is_named():
    with pytest.raises(InputError, match=r"fewnode\[ray\]"):
        next(cluster.execute_ray(lambda: None))


@pytest.mark.skipif(not HAS_RAY, reason="needs Ray: pip install 'fewnode[ray]'")
def test_a_lost_machine_costs_no_row(tmp_path_factory, tmp_path, tiny, monkeypatch):
    scratch = tmp_path_factory.mktemp("r")  # Ray writes into HOME at its first start
    for name in ("HOME", "RAY_TMPDIR"):
        monkeypatch.setenv(name, str(scratch))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    tiny[0].save_npz(tmp_path / "own.npz")
    runs = [Run(str(tmp_path / "own.npz"), "probe", {"rank": rank}, 3, 2, 5) for rank in range(8, 16)]
    bad = Run(str(tmp_path / "own.npz"), "probe", {}, 50, 2, 5)
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        second = machines.add_node(num_cpus=1)
        ray.init(address=machines.address, log_to_driver=False)
        session = Session(tmp_path / "rows.jsonl", [*runs, bad])
        for event in session.conduct(lambda next_run: cluster.execute_ray(next_run, resources={"cpu": 1})):
            if isinstance(event, Finished) and len(session.done) == 2 and second is not None:
                machines.remove_node(second, allow_graceful=False)
                second = None
    finally:
        ray.shutdown()
        machines.shutdown()
    assert second is None
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    rows = results.read(tmp_path / "rows.jsonl")
    assert len(lines) == len(rows) == 9
    assert {row["id"] for row in rows if row["status"] == "ok"} == {run.id for run in runs}
    assert [row["id"] for row in rows if row["status"] != "ok"] == [bad.id]
