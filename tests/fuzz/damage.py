"""Ways to damage a file: its bytes, and, where it is JSON, TOML or an archive of arrays, what these say."""

import io
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31 - 1, 2**53 + 1, 2**64, -(2**63), 10**30, 0.5, -1e308, 1e308, 1e-320, "", "x",
    "\x1b[31m",     "a$\\frac$b", "9/../../x", "<script>alert(1)</script>", "[/x]", "\ud800", [], [[]], {}, [1, "a"],
    {"a": []}, "1_000",
]  # fmt: skip
TOML = ["1", "-1", "2000000000", "1e400", "nan", "inf", '"x"', "true", "[]", "[[]]", "{}", '["a", 1]', "1979-05-27"]


@st.composite
def damaged_bytes(draw: Any, data: bytes) -> bytes:
    """Bits flipped, a part cut out, doubled, overwritten or put in."""
    found = bytearray(data)
    at = draw(st.integers(0, max(0, len(found) - 1)))
    how = draw(st.sampled_from(["flip", "flip", "flip", "cut", "end", "zero", "double", "insert", "overwrite"]))
    length = draw(st.sampled_from([1, 2, 8, 64, 1000]))
    if how == "flip":
        for _ in range(draw(st.integers(1, 3))):
            found[draw(st.integers(0, len(found) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif how == "cut":
        del found[at : at + length]
    elif how == "end":
        del found[at:]
    elif how == "zero":
        found[at : at + length] = bytes(len(found[at : at + length]))
    elif how == "double":
        found[at:at] = found[at : at + length]
    elif how == "insert":
        found[at:at] = draw(st.binary(min_size=1, max_size=20))
    else:
        new = draw(st.binary(min_size=1, max_size=20))
        found[at : at + len(new)] = new
    return bytes(found)


@st.composite
def damaged_json(draw: Any, data: bytes) -> bytes:
    """A document with a value of another type, a key missing or new, a list of another length; or nested deep."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    how = draw(st.sampled_from(["value", "value", "value", "drop", "deep", "long"]))
    if how == "deep":
        return b"[" * draw(st.sampled_from([70, 10_000, 200_000]))
    holders = _holders(document)
    holder = draw(st.sampled_from(holders)) if holders else document
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder))) if isinstance(holder, list) else []
    if not keys:
        return json.dumps(draw(st.sampled_from(VALUES))).encode()
    key = draw(st.sampled_from(keys))
    if how == "drop":
        del holder[key]
    elif how == "long" and isinstance(holder[key], list):
        holder[key] = holder[key] * draw(st.sampled_from([0, 2, 3]))
    else:
        holder[key] = draw(st.sampled_from(VALUES))
    return json.dumps(document).encode()


def _holders(document: Any) -> list[Any]:
    if isinstance(document, dict):
        return [document, *(found for value in document.values() for found in _holders(value))]
    if isinstance(document, list):
        return [document, *(found for value in document[:20] for found in _holders(value))]
    return []


@st.composite
def damaged_lines(draw: Any, data: bytes) -> bytes:
    """A file of JSON lines, one of them damaged."""
    lines = data.splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    lines[at] = draw(damaged_json(lines[at]))
    return b"\n".join(lines) + b"\n"


@st.composite
def damaged_toml(draw: Any, data: bytes) -> bytes:
    """A TOML file, one of its values replaced."""
    text = data.decode()
    found = draw(st.sampled_from(list(re.finditer(r"(?m)= (.*)$", text))))
    new = draw(st.sampled_from([*TOML, "[" * 3000, '"wordnet"']))
    return f"{text[: found.start(1)]}{new}{text[found.end(1) :]}".encode()


@st.composite
def damaged_arrays(draw: Any, data: bytes) -> bytes:
    """An npz archive, one of its arrays of another length, type or content, or missing."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    how = draw(
        st.sampled_from(["drop", "short", "long", "float", "text", "flat", "value", "value", "scalar", "turned"])
    )
    if how == "drop":
        del arrays[name]
    elif how == "value" and array.size and array.dtype.kind in "iuf":
        info: Any = np.iinfo if array.dtype.kind in "iu" else np.finfo
        worst = [-1, 0, 7, 1000, 2**31 - 1, 2**40, info(array.dtype).max, info(array.dtype).min]
        flat = array.astype(np.int64 if array.dtype.kind in "iu" else array.dtype).reshape(-1)
        flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(worst))
        arrays[name] = flat.reshape(array.shape)
    else:
        changed = {
            "short": lambda: array[: len(array) // 2] if array.ndim else array,
            "long": lambda: np.concatenate([array, array]) if array.ndim else array,
            "float": lambda: array.astype(np.float64) * np.nan if array.dtype.kind in "iuf" else array,
            "text": lambda: array.astype(str),
            "flat": lambda: array.reshape(-1),
            "scalar": lambda: np.array(2**62),
            "turned": lambda: array.T,
        }
        arrays[name] = changed.get(how, lambda: array[None])()
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


@st.composite
def damaged_array(draw: Any, data: bytes) -> bytes:
    """An npy file of another length, type or content."""
    packed = io.BytesIO()
    np.savez(packed, a=np.load(io.BytesIO(data)))
    with np.load(io.BytesIO(draw(damaged_arrays(packed.getvalue())))) as archive:
        out = io.BytesIO()
        np.save(out, archive["a"] if "a" in archive.files else np.zeros(0))
    return out.getvalue()


@st.composite
def damaged_sheet(draw: Any, data: bytes) -> bytes:
    """An Excel file, in whose XML a number, a place or a size is another one, or bytes are damaged."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = draw(st.sampled_from(["xl/worksheets/sheet1.xml"] * 3 + sorted(parts)))
    if draw(st.booleans()):
        parts[name] = draw(damaged_bytes(parts[name]))
    else:
        parts[name] = draw(damaged_xml(parts[name]))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    return out.getvalue()


@st.composite
def damaged_xml(draw: Any, data: bytes) -> bytes:
    """A text of XML, one of its attributes, texts or numbers replaced."""
    places = list(re.finditer(rb'(?<==")[^"]*|(?<=>)[^<]+', data))
    if not places:
        return data
    found = draw(st.sampled_from([*places[:20], *places]))
    new = draw(st.sampled_from(XML))
    return data[: found.start()] + new + data[found.end() :]


XML = [
    b"", b"-1", b"0", b"A1", b"A1:B11", b"XFD1048576", b"A1:XFD1048576", b"ZZZZ9", b"A0", b"9" * 400, b"1e999", b"nan",
    b"klingon", b"utf-16", b"rot13", b"&lol;", b"&#0;", b"\xff", b"s", b"d", b"e", b"inlineStr", b"true", b"double",
]  # fmt: skip


def damaged(name: str, data: bytes) -> st.SearchStrategy[bytes]:
    """Any damage that a file of this name can have."""
    ways = [damaged_bytes(data)]
    special = {".json": damaged_json, ".jsonl": damaged_lines, ".toml": damaged_toml, ".npz": damaged_arrays}
    special |= {".npy": damaged_array, ".xlsx": damaged_sheet, ".graphml": damaged_xml}
    for ending, way in special.items():
        if name.endswith(ending):
            ways += [way(data), way(data)]
    return st.one_of(ways)


def link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def nothing(path: Path) -> None:
    """The file is gone."""


ODD = [os.mkfifo, Path.mkdir, Path.touch, endless, link_to_itself, link_to_nowhere, nothing]  # in place of a file
