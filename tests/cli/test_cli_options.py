"""Messages that name arguments of Python name options of the command line."""

import pytest

from fewnode.cli import build_parser
from fewnode.cli.options import with_flags


@pytest.mark.parametrize(
    ("command", "message", "told"),
    [
        (["predict", "m", "--out", "p.csv"], "add force=True", "add --force"),
        (["find", "m"], "name it with label='a b'", "name it with --class 'a b'"),
        (
            ["fit", "--out", "m"],
            "include_unlisted=True predicts them too, strict=True refuses them",
            "fewnode predict --include-unlisted predicts them too, --strict refuses them",
        ),
        (["label", "m"], "name the tables with edges= and nodes=", "name the tables with edges= and nodes="),
        (["label", "m"], "nothing=True", "nothing=True"),
    ],
)
def test_flags_of_this_command_or_of_another(command, message, told):
    assert with_flags(message, build_parser().parse_args(command)) == told
