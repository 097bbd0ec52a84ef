"""Folders take the place of others in one step: whoever is killed, whenever, leaves a whole one."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import forked
from fewnode import files as folders
from fewnode.errors import InputError
from fewnode.files import Manifest, atomic_write, check_aside, whole_folder


def write(target: Path, text: str) -> None:
    with whole_folder(target) as fresh:
        for name in ("a", "b"):
            with atomic_write(fresh / name, "w") as file:
                file.write(text)


def killed_at(target: Path, at: int) -> None:
    """Write, but die at the ``at``-th step that changes a folder or waits for the disk."""
    seen = 0

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def do(*args: object, **kwargs: object) -> object:
            nonlocal seen
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return do

    for name in ("replace", "rename", "fsync", "link", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    folders._exchange = counted(folders._exchange)
    write(target, "new")


def content(folder: Path) -> str:
    """What both files of a whole folder say."""
    manifest = Manifest.read(folder)
    one, other = (manifest.read_bytes(folder, name).decode() for name in ("a", "b"))
    assert one == other
    return one


def test_a_writer_killed_at_any_step_leaves_the_old_folder_or_the_new_one(tmp_path):
    target = tmp_path / "model"
    write(target, "old")
    (target / "notes.txt").write_text("mine")
    found, at, code = [], 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        at += 1
        code = forked.ended(killed_at, target, at)
        found.append(content(target))
        assert (target / "notes.txt").read_text() == "mine"
        write(target, "old")
        assert [path.name for path in tmp_path.iterdir()] == ["model"], "what the killed writer left is swept"
    assert code == 0 and at > 8 and found[0] == "old" and found[-1] == "new"


def test_without_the_exchange_the_old_folder_steps_aside_and_is_found_again(tmp_path, monkeypatch):
    target = tmp_path / "model"
    write(target, "old")
    monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    write(target, "new")
    assert content(target) == "new" and [path.name for path in tmp_path.iterdir()] == ["model"]
    target.rename(tmp_path / ".model.old")  # as a kill between the two steps leaves it
    with pytest.raises(InputError, match=r"rename .*\.model\.old to .*model"):
        check_aside(target)


def test_two_writers_at_once_do_not_sweep_each_other_away(tmp_path):
    target = tmp_path / "model"
    with whole_folder(target) as fresh:
        write(target, "quick")
        assert fresh.exists()
        for name in ("a", "b"):
            (fresh / name).write_text("slow")
    assert content(target) == "slow" and [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_error_half_way_leaves_nothing(tmp_path):
    write(tmp_path / "model", "old")
    with pytest.raises(OSError, match="No space"), whole_folder(tmp_path / "model") as fresh:
        (fresh / "a").write_text("half")
        raise OSError(28, "No space left on device")
    assert content(tmp_path / "model") == "old" and [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_folder_behind_a_link_is_replaced_not_the_link(tmp_path):
    write(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and content(tmp_path / "real") == "new"


def test_what_a_killed_writer_of_a_file_left_is_swept(tmp_path):
    (tmp_path / ".a.txt.xyz.new").write_text("half")
    (tmp_path / ".b.txt.xyz.new").write_text("another's")
    with atomic_write(tmp_path / "a.txt", "w") as file:
        file.write("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.txt.xyz.new", "a.txt"]
