"""Reading a large graph from CSV: 5 million edges and 1 million nodes with an id, a class, a town and four numbers.

python benchmarks/reading.py [edges] [nodes]      (5000000 1000000)

Seconds of the clock depend on what else the machine does; those of the processor hardly do.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fewnode import tables as io

LIMIT_SECONDS, LIMIT_GB = 30, 3


def write(folder: Path, n_edges: int, n_nodes: int) -> None:
    rng = np.random.default_rng(0)
    source, target = (rng.integers(0, n_nodes, n_edges).tolist() for _ in range(2))
    with (folder / "edges.csv").open("w") as file:
        file.write("from,to\n")
        file.writelines(f"n{a},n{b}\n" for a, b in zip(source, target, strict=True))
    label, town = rng.integers(0, 40, n_nodes).tolist(), rng.integers(0, 200, n_nodes).tolist()
    numbers = rng.normal(size=(n_nodes, 4)).round(4).tolist()
    with (folder / "nodes.csv").open("w") as file:
        file.write("node,class,town,p,q,r,s\n")
        file.writelines(
            f"n{i},class {c},town {t},{','.join(map(str, row))}\n"
            for i, (c, t, row) in enumerate(zip(label, town, numbers, strict=True))
        )


def main(n_edges: int, n_nodes: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n_edges, n_nodes)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        clock, processor = time.perf_counter(), time.process_time()
        found = io.read_graph(folder / "edges.csv", folder / "nodes.csv")
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    x = found.arguments["x"]
    print(
        f"{n_edges:,} edges and {n_nodes:,} nodes ({size:.0f} MB) as edges {found.arguments['edge_index'].shape} "
        f"and features {x.shape}: {clock:.1f} s ({processor:.1f} s of processor), peak {peak:.2f} GB "
        f"(limits: {LIMIT_SECONDS} s, {LIMIT_GB} GB)"
    )


if __name__ == "__main__":
    main(*(int(value) for value in (sys.argv[1:3] or (5_000_000, 1_000_000))))
