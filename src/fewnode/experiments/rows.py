"""What a result row must hold: the types of its parts, and how these must agree."""

import json
import math
from typing import Annotated, Any, Literal

import msgspec

from ..errors import InputError
from ..storage.documents import Count, Positive, Share, check_depth, plain
from .grid import Run, Scalar

FORMAT = 1
Row = dict[str, Any]
Duration = Annotated[float, msgspec.Meta(ge=0, le=1e10)]
SIZES = ("train_way", "train_shot", "train_query")
SWITCHES = ("node_adaptation", "class_adaptation", "task_adaptation")


class Settings(msgspec.Struct):
    """Of a run."""

    dataset: str
    method: str
    options: dict[str, Scalar | list[Scalar]]
    n_way: Positive
    k_shot: Positive
    n_query: Positive
    seed: Count
    inductive: bool
    graph: str = ""


class Failed(msgspec.Struct, tag_field="status", tag="failed"):
    """A row of a run that came to nothing."""

    format: Literal[1]
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    run: Settings
    finished: str
    versions: dict[str, str]
    reason: str


class Succeeded(msgspec.Struct, tag_field="status", tag="ok"):
    """A row of a run that was trained and tested. ``correct`` are counts per task, ``per_class`` [correct, of all]."""

    format: Literal[1]
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    run: Settings
    finished: str
    versions: dict[str, str]
    accuracy: Share
    interval: Share
    pool: Annotated[str, msgspec.Meta(max_length=64)]
    queries: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
    correct: Annotated[list[Count], msgspec.Meta(min_length=1, max_length=1_000_000)]
    per_class: dict[str, tuple[Count, Positive]]
    seconds: dict[str, Duration]
    peak_memory: Count
    training_free: bool
    task_transductive: bool
    notes: list[str] = []
    curve: list[tuple[Count, Share]] = []
    best: Share | None = None


def parse_row(line: bytes) -> Row:
    """The row in a line of JSON; what is wrong with it is an ``InputError``."""
    try:
        check_depth(line)
        row = msgspec.json.decode(line, type=dict[str, Any])
        if type(row.get("format")) is int and row["format"] > FORMAT:
            raise InputError(f"it has format {row['format']}, this version reads up to {FORMAT}; upgrade fewnode")
        _check(msgspec.convert(row, Succeeded | Failed))
    except InputError:
        raise
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError) as error:
        raise InputError(f"it is not a result row ({plain(error)})") from error
    return row


def _check(row: Succeeded | Failed) -> None:
    """That its parts agree: a changed digit seldom keeps all of them in step."""
    settings = msgspec.to_builtins(row.run)
    if Run(**settings).id != row.id:
        raise InputError("its id is not that of its settings")
    for key, value in row.run.options.items():
        if (key in SIZES and (type(value) is not int or value < 1)) or (key in SWITCHES and type(value) is not bool):
            raise InputError(f"its option {key} is {json.dumps(value)}")
    if isinstance(row, Failed):
        return
    if not {"train", "total"} <= row.seconds.keys():
        raise InputError("its seconds are not those of a training")
    if max(row.correct) > row.queries:
        raise InputError(f"a task has {max(row.correct)} right answers of {row.queries}")
    if not math.isclose(sum(row.correct) / (row.queries * len(row.correct)), row.accuracy, abs_tol=2e-6):
        raise InputError(f"its accuracy {row.accuracy} is not that of its tasks")
    for name, (right, asked) in row.per_class.items():
        if right > asked:
            raise InputError(f"class {name!r} has {right} right answers of {asked}")
