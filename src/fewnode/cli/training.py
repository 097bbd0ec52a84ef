"""Teaching and testing: ``fewnode train`` and ``fewnode evaluate``."""

from typing import Any


def add_commands(commands: Any) -> None:
    """None yet."""
