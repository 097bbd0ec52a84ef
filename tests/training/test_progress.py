"""People at a terminal see what takes long; pipes, and those who turn it off, see nothing."""

import os
import pty
import subprocess
import sys

import pytest

from fewnode.training.progress import shown

CODE = """
import time
from fewnode.training.progress import shown
with shown({progress!r}, seconds=0.01) as tell:
    tell("making the views", 0.5)
    time.sleep(0.5)
"""


@pytest.mark.parametrize(
    ("progress", "terminal", "seen"), [("auto", True, True), ("auto", False, False), (None, True, False)]
)
def test_a_bar_is_for_a_terminal(progress, terminal, seen):
    main, other = pty.openpty() if terminal else os.pipe()
    env = {**os.environ, "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", CODE.format(progress=progress)], stderr=other, env=env, check=True)
    os.close(other)
    written = b""
    try:
        while part := os.read(main, 1 << 16):
            written += part
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(main)
    assert (b"making the views" in written) == seen and (seen or written == b"")


def test_a_function_is_told_and_several_may_run_at_once():
    told = []
    with shown(lambda what, part: told.append((what, part))) as first, shown("auto") as second:
        first("one", 0.5)
        second("two", 0.5)
    assert told == [("one", 0.5)]
