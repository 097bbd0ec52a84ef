"""Files on disk: written whole or not at all, checked when they are read, never run."""

from .files import PathLike as PathLike
from .files import atomic_write as atomic_write
from .files import cache_dir as cache_dir
from .files import read_npz as read_npz
from .files import readable as readable
from .files import reading as reading
from .files import write_json as write_json
from .files import write_npz as write_npz
