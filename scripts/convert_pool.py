"""Convert a published pool of few-shot tasks to the npz file that ``Tasks.load`` reads.

    python scripts/convert_pool.py 5way_3shot.pkl --part test --out pool.npz

The pools of NaQ (ICML 2024) are pickles of ``(validation pool, test pool)``; a pool is a list of tasks
``(support nodes, support classes, query nodes, query classes)``. A pickle can run any code, so the reader here
allows the few names that arrays and tensors of whole numbers consist of and refuses every other.
"""

import argparse
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fewnode import InputError, Tasks

ALLOWED = {
    ("collections", "OrderedDict"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.numeric", "_frombuffer"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch.storage", "_load_from_bytes"),
    ("_codecs", "encode"),
}


class ArrayUnpickler(pickle.Unpickler):
    """Reads lists, numbers, arrays and tensors; any other name in the file is refused before it is looked up."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise InputError(f"the file names {module}.{name}, which a pool of tasks does not need; it is not read")
        if name == "_load_from_bytes":
            return _storage
        return super().find_class(module, name)


def _storage(data: bytes) -> Any:
    """The storage of a tensor, which a pickled tensor carries as a file of torch.save; read by torch's safe reader."""
    import torch

    return torch.load(io.BytesIO(data), weights_only=True)


def read_pool(path: Path, part: str) -> Tasks:
    """The tasks of one part ("validation" or "test") of a pickled pool."""
    if zipfile.is_zipfile(path):
        raise InputError(f"{path} is a zip archive, not a pickle; Tasks.load reads npz files as they are")
    try:
        with path.open("rb") as file:
            found = ArrayUnpickler(file).load()
        pool = found[("validation", "test").index(part)]
        parts = [np.stack([np.asarray(task[i]).reshape(-1) for task in pool]) for i in range(4)]
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a pickled pool of tasks: {error}") from error
    return Tasks(*(values.astype(np.int64) for values in parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pool", type=Path)
    parser.add_argument("--part", choices=["validation", "test"], default="test")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    try:
        tasks = read_pool(args.pool, args.part)
        tasks.save(args.out)
    except InputError as error:
        parser.exit(2, f"convert_pool: {error}\n")
    shape = f"{tasks.support.shape[1]} supports, {tasks.query.shape[1]} queries"
    print(f"{args.out}: {len(tasks)} {tasks.n_way}-way tasks, {shape}")


if __name__ == "__main__":
    main()
