"""The versions a result depends on, as every row and every saved model carries them."""

import platform
from importlib.metadata import version


def versions() -> dict[str, str]:
    found = {name: version(name) for name in ("torch", "numpy", "scipy")}
    from . import __version__

    return {"fewnode": __version__, "python": platform.python_version(), **found}
