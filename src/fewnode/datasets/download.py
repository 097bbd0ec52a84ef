"""Downloads: resumed after a break, checked by hash, put in place completely or not at all."""

import errno
import hashlib
import http.client
import os
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from ..errors import InputError, refused
from ..files import cache_dir, fcntl
from ..tables.text import DEFAULT
from .catalog import File

DownloadProgress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes so far and the total (None: unknown)."""


ENCODER = {
    "model.safetensors": "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
    "tokenizer.json": "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
    "config.json": "2a6ac0e9aaa356a68a5688070db78fc3a464fefe85d2f06a1905ce3718687553",
}


def fetch(
    file: File,
    folder: Path,
    *,
    progress: DownloadProgress | None = None,
    pause: float = 1.0,
    timeout: float = 60.0,
    by_hand: str | None = None,
) -> Path:
    """Download ``file`` into ``folder`` and return its path; an incomplete download is continued.

    A file with unexpected content is deleted and reported. ``by_hand`` tells the user what to do instead.
    """
    target, part = folder / file.name, folder / f"{file.name}.part"
    remedy = by_hand or f"Get it in another way and put it in {folder}, or set FEWNODE_DATA to the folder that holds it"
    try:
        if not target.exists():
            if file.url is None:
                raise InputError(f"{file.name} is missing and has no address")
            with refused(f"cannot write to {folder}", OSError):
                folder.mkdir(parents=True, exist_ok=True)
                _complete(file, part, target, progress, pause, timeout)
    except InputError as error:
        raise InputError(f"{error}. {remedy}.") from error
    return target


def fetch_encoder() -> Path:
    """The folder of the default text encoder; missing files are downloaded."""
    folder = cache_dir() / "encoders" / DEFAULT
    begun = folder if folder.exists() else folder.with_name(f".{DEFAULT}.part")
    files = ", ".join(ENCODER)
    by_hand = f"Without a network, copy {files} of {DEFAULT} into {folder}, or name their folder as the text encoder"
    for name, digest in ENCODER.items():
        url = f"https://huggingface.co/minishlab/{DEFAULT}/resolve/main/{name}"
        fetch(File(name=name, url=url, sha256=digest), begun, by_hand=by_hand)
    return begun.rename(folder)


def check(file: File, path: Path) -> None:
    """Compare a file's content with the hashes in the catalogue."""
    size = path.stat().st_size
    checks = {
        "git blob id": (file.blob, lambda: hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)),
        "sha256": (file.sha256, hashlib.sha256),
    }
    for name, (expected, digest) in checks.items():
        if expected is not None:
            with path.open("rb") as content:
                got = hashlib.file_digest(content, digest).hexdigest()
            if got != expected:
                told = f"{name} expected {expected}, got {got}. Delete it and fetch it again"
                raise InputError(f"{path} ({size:,} bytes) is not the expected file: {told}")


def _complete(
    file: File, part: Path, target: Path, progress: DownloadProgress | None, pause: float, timeout: float
) -> None:
    """Download the rest of ``part`` and check it; other processes that download the same file wait."""
    with part.open("ab") as handle:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            if target.exists():  # another process downloaded it while this one waited
                return
            waits = [pause * 2**number for number in range(4)]
            while broken := _receive(file, part, progress, timeout):
                if not waits:
                    raise InputError(f"cannot fetch {file.url}: {broken}")
                time.sleep(waits.pop(0))
            try:
                check(file, part)
            except InputError:
                part.unlink()
                raise
            part.replace(target)
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()


def _receive(file: File, part: Path, progress: DownloadProgress | None, timeout: float) -> str:
    """Download the missing bytes; all of them, if the server does not support ranges. Returns why the download broke
    off, if another try may help."""
    have = part.stat().st_size
    headers = {"User-Agent": "fewnode"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(Request(str(file.url), headers=headers), timeout=timeout) as answer, part.open("r+b") as out:
            resumed = answer.status == 206 and (answer.headers["Content-Range"] or "").startswith(f"bytes {have}-")
            done = out.seek(out.truncate(have if resumed else 0))
            if answer.status == 206 and not resumed:
                return "the server sent another range than requested"
            length = answer.headers["Content-Length"]
            total = None if length is None else done + int(length)
            while chunk := answer.read(1 << 16):
                done += out.write(chunk)
                if progress is not None:
                    progress(file.name, done, total)
            out.flush()
            os.fsync(out.fileno())
            whole = total is None or done == total  # read() ends without an error when the connection closes
            return "" if whole else f"the connection ended after {done:,} of {total:,} bytes"
    except HTTPError as error:
        said = f"the server answered {error.code} {error.reason}"
        if error.code == 416:  # there is nothing beyond the part: it may not be the beginning of this file
            os.truncate(part, 0)
        elif error.code not in (408, 425, 429, 500, 502, 503, 504):  # temporary errors
            raise InputError(f"cannot fetch {file.url}: {said}") from error
        return said
    except (http.client.HTTPException, URLError, ssl.SSLError, ConnectionError, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        offline = (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH)  # another try will not help
        if isinstance(reason, socket.gaierror) or getattr(reason, "errno", None) in offline:
            raise InputError(f"cannot reach {file.url} ({reason})") from error
        return f"the connection broke ({reason})"
