"""Files of every kind, damaged in every way that comes to mind: refused by name, or harmless. Never a traceback.

``make test`` tries FEWNODE_FUZZ_CASES = 500 of them, always the same; ``make fuzz CASES=10000`` tries new ones.
"""

import os
import resource
import shutil
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fewnode.errors import InputError
from fewnode.tables import Table
from fuzz.damage import ODD, damaged
from fuzz.kinds import KINDS, Kind

CASES = int(os.environ.get("FEWNODE_FUZZ_CASES", "500"))
NEW = "FEWNODE_FUZZ_CASES" in os.environ  # a long run tries new cases
SECONDS, BYTES = 20, 2 << 30  # of a case
SHARE = {"own model": 2.0, "training state": 0.5, "csv": 0.5}


@pytest.fixture(scope="module", autouse=True)
def limits():
    """A case that hangs or asks for too much memory fails, and does not take the machine with it."""

    def late(*_):
        raise TimeoutError(f"more than {SECONDS} s")

    database = Table.of("", {"x": np.zeros(1)})
    database.run("set threads = 1")  # each reserves addresses
    before, memory = signal.signal(signal.SIGALRM, late), resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, memory[1]))
    yield
    database.run("reset threads")
    resource.setrlimit(resource.RLIMIT_AS, memory)
    signal.signal(signal.SIGALRM, before)


def outcome(kind: Kind, folder: Path, files: list[str]) -> object:
    """What the reader made of a folder; None if it refused it. Anything else that is raised is a defect."""
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (kind.read(folder),)
    except InputError as error:
        names = [name.rpartition("/")[2] for name in files]
        assert any(name in str(error) for name in names) or str(folder) in str(error), f"names no file: {error}"
        return None
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_refused_by_name_or_harmless(name, tmp_path_factory, monkeypatch):
    kind, home = KINDS[name], tmp_path_factory.mktemp("whole")
    whole, folder = home / "whole", home / "case"
    kind.make(whole)
    shutil.copytree(whole, folder)
    found = sorted(path for pattern in kind.files for path in whole.glob(pattern) if path.is_file())
    files = [str(path.relative_to(whole)) for path in found if kind.seal is None or path.name != "manifest.json"]
    expected = (kind.read(folder),)  # the first time everything is imported, which may take longer than a case

    @settings(
        max_examples=max(1, round(SHARE.get(name, 1.0) * CASES / len(KINDS))), deadline=None, database=None,
        derandomize=not NEW, suppress_health_check=list(HealthCheck), print_blob=True,
    )  # fmt: skip
    @given(st.data())
    def case(data):
        file = data.draw(st.sampled_from(files))
        content, path = (whole / file).read_bytes(), folder / file
        if data.draw(st.integers(0, 9)):
            path.write_bytes(data.draw(damaged(file, content)))
        else:
            path.unlink()
            data.draw(st.sampled_from(ODD[: -3 if name == "training state" else None]))(path)  # without: from the start
        if kind.seal is not None:
            kind.seal(folder)
        try:
            found = outcome(kind, folder, files)
            if kind.sealed and found is not None:
                assert found == expected, "accepted, and something else came out"
        finally:
            shutil.rmtree(folder)
            shutil.copytree(whole, folder)

    case()
