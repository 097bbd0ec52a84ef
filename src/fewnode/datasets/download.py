"""Fetching files: resumed after a break, checked byte for byte, put in place whole or not at all."""

import errno
import hashlib
import http.client
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from ..errors import InputError
from .catalog import File

DownloadProgress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes so far and the bytes in all (None: unknown)."""

_CHUNK = 1 << 16
_BUSY = {408, 425, 429, 500, 502, 503, 504}  # answers that may be others a moment later

_OFFLINE = {errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH}  # trying again will not help


class _Interrupted(Exception):
    """The connection broke or the server was busy: worth another try."""


def fetch(
    file: File,
    folder: Path,
    *,
    progress: DownloadProgress | None = None,
    attempts: int = 5,
    pause: float = 1.0,
    timeout: float = 60.0,
) -> Path:
    """Bring ``file`` into ``folder`` and return its path; what an earlier attempt left is continued.

    A file whose content is not the expected one is deleted again and reported.
    """
    target, part = folder / file.name, folder / f"{file.name}.part"
    try:
        if target.exists():
            return target
        if file.url is None:
            raise InputError(f"{file.name} is not here and has no address. {_by_hand(folder)}")
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(part):
            if not target.exists():  # another process may have brought it while this one waited
                _receive_all(file, part, progress, attempts, pause, timeout)
                _check_or_delete(file, part)
                part.replace(target)
    except OSError as error:
        raise InputError(f"cannot write to {folder} ({error.strerror}). {_by_hand(folder)}") from error
    return target


def _by_hand(folder: Path) -> str:
    return f"Get it by other means and put it in {folder}, or set FEWNODE_DATA to the folder that holds it."


def check(file: File, path: Path) -> None:
    """Compare a file's content with the checks the catalog has for it; an error names expected and got."""
    for kind, expected in (("git blob id", file.blob), ("sha256", file.sha256)):
        if expected is not None:
            got = _digest(path, kind)
            if got != expected:
                raise InputError(
                    f"{path} ({path.stat().st_size:,} bytes) is not the expected file: "
                    f"{kind} expected {expected}, got {got}. Delete it and fetch it again."
                )


def _digest(path: Path, kind: str) -> str:
    if kind == "sha256":
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _check_or_delete(file: File, part: Path) -> None:
    try:
        check(file, part)
    except InputError:
        part.unlink()
        raise


def _receive_all(
    file: File, part: Path, progress: DownloadProgress | None, attempts: int, pause: float, timeout: float
) -> None:
    for attempt in range(attempts):
        try:
            return _receive(file, part, progress, timeout)
        except _Interrupted as error:
            if attempt == attempts - 1:
                raise InputError(f"cannot fetch {file.url}: {error}. {_by_hand(part.parent)}") from error
            time.sleep(pause * 2**attempt)


def _receive(file: File, part: Path, progress: DownloadProgress | None, timeout: float) -> None:
    """One request for the bytes that are still missing."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "fewnode"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(Request(str(file.url), headers=headers), timeout=timeout) as answer:
            _store(file.name, answer, part, have, progress)
    except HTTPError as error:
        _refused(error, file, part, have)
    except (http.client.HTTPException, URLError, ssl.SSLError, ConnectionError, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, socket.gaierror) or getattr(reason, "errno", None) in _OFFLINE:
            raise InputError(f"cannot reach {file.url} ({reason}). {_by_hand(part.parent)}") from error
        raise _Interrupted(f"the connection broke ({reason})") from error


def _store(
    name: str, answer: http.client.HTTPResponse, part: Path, have: int, progress: DownloadProgress | None
) -> None:
    """Write the body behind what is there, or from the start where the server sends the whole."""
    resumed = answer.status == 206
    if resumed and not (answer.headers["Content-Range"] or "").startswith(f"bytes {have}-"):
        part.unlink()
        raise _Interrupted("the server sent another part than asked for")
    done = have if resumed else 0
    length = answer.headers["Content-Length"]
    total = None if length is None else done + int(length)
    with part.open("ab" if resumed else "wb") as out:
        while chunk := answer.read(_CHUNK):
            out.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(name, done, total)
        out.flush()
        os.fsync(out.fileno())
    if total is not None and done < total:  # read() ends quietly when the other side hangs up
        raise _Interrupted(f"the connection ended after {done:,} of {total:,} bytes")


def _refused(error: HTTPError, file: File, part: Path, have: int) -> None:
    """Decide what a status other than 2xx means."""
    if error.code == 416:  # nothing beyond what is there: either it is whole, or it is not this file's beginning
        if error.headers["Content-Range"] == f"bytes */{have}":
            return
        part.unlink()
        raise _Interrupted("what was there is longer than the file")
    if error.code in _BUSY:
        raise _Interrupted(f"the server answered {error.code} {error.reason}")
    answer = f"the server answered {error.code} {error.reason}"
    raise InputError(f"cannot fetch {file.url}: {answer}. {_by_hand(part.parent)}") from error


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Hold ``part`` against other processes that fetch the same file, where the system knows such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with part.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()
