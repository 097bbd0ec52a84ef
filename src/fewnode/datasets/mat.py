"""MATLAB files, read by a process of its own: SciPy's reader can crash on a damaged one, and must not take us along."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io
from scipy import sparse as sp

from ..errors import InputError
from ..files import read_npz

SECONDS = 300  # no published file takes longer than a few
PARTS = ("data", "indices", "indptr", "shape")  # of a sparse matrix, by columns
REFUSED = 3  # exit status: not a file of this kind, with the reason on standard error


def load_mat(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The variables ``keys`` of a MATLAB 5 file: NumPy arrays of numbers, or ``{part: array}`` of a sparse matrix whose
    parts are as they stand in the file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "content.npz"
        command = [sys.executable, "-c", "from fewnode.datasets.mat import copy; copy()", str(path), str(out), *keys]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{path} is not a readable MATLAB 5 file (no answer after {SECONDS} s)") from error
        if done.returncode:
            why = done.stderr.strip() if done.returncode == REFUSED else "its reader crashed"
            raise InputError(f"{path} is not a readable MATLAB 5 file ({why})")
        flat = read_npz(out)
    found: dict[str, Any] = {key: flat[key] for key in keys if key in flat}
    for key in keys:
        if f"{key}.data" in flat:
            found[key] = {part: flat[f"{key}.{part}"] for part in PARTS}
    return found


def copy() -> None:
    """In the process of its own: the file's variables as an npz."""
    source, out, *keys = sys.argv[1:]
    try:
        content = io.loadmat(source, appendmat=False, variable_names=keys)
        arrays: dict[str, np.ndarray] = {}
        for key in keys:
            if key in content:
                arrays |= _parts(key, content[key])
    except Exception as error:  # SciPy has a dozen words for "not a MATLAB 5 file"
        sys.stderr.write(" ".join(str(error).split())[:200])
        sys.exit(REFUSED)
    np.savez(out, **arrays)  # type: ignore[arg-type]  # names are those of variables


def _parts(key: str, value: Any) -> dict[str, np.ndarray]:
    if sp.issparse(value):
        matrix = value if value.format == "csc" else sp.csc_matrix(value)
        parts = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape))
        return {f"{key}.{name}": part for name, part in zip(PARTS, parts, strict=True)}
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufb":
        raise ValueError(f"{key} is no array of numbers")
    return {key: value}
