"""MATLAB files, read by a process of its own: SciPy's reader can crash on a damaged one, and must not take us along."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import io
from scipy import sparse as sp

from ..errors import InputError
from ..files import read_npz


def load_mat(path: Path, keys: Sequence[str], seconds: float = 300) -> dict[str, np.ndarray]:
    """The variables ``keys`` of a MATLAB 5 file: arrays of numbers, or for a sparse matrix its parts as they stand in
    the file, by columns: ``{key}_data``, ``{key}_indices``, ``{key}_indptr`` and ``{key}_shape``."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "content.npz"
        command = [sys.executable, "-c", "from fewnode.datasets.mat import copy; copy()", str(path), str(out), *keys]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{path} is not a readable MATLAB 5 file (no answer after {seconds} s)") from error
        if done.returncode:
            why = done.stderr.strip() if done.returncode == 3 else "its reader crashed"
            raise InputError(f"{path} is not a readable MATLAB 5 file ({why})")
        return read_npz(out)


def copy() -> None:
    """In the process of its own: the file's variables as an npz. It ends with status 3 and the reason on standard error
    if that is not possible."""
    source, out, *keys = sys.argv[1:]
    arrays: dict[str, np.ndarray] = {}
    try:
        content = io.loadmat(source, appendmat=False, variable_names=keys)
        for key, value in ((key, content[key]) for key in keys if key in content):
            if sp.issparse(value):
                parts = ("data", "indices", "indptr", "shape")
                arrays |= {f"{key}_{part}": np.asarray(getattr(value.tocsc(), part)) for part in parts}
            elif isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
                arrays[key] = value
            else:
                raise ValueError(f"{key} is no array of numbers")
    except Exception as error:  # SciPy has a dozen words for "not a MATLAB 5 file"
        sys.stderr.write(" ".join(str(error).split())[:200])
        sys.exit(3)
    np.savez(out, **arrays)  # type: ignore[arg-type]  # names are those of variables
