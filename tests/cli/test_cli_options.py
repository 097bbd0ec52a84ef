"""Messages that name arguments of Python name options of the command line."""

import pytest

from fewnode.cli import build_parser
from fewnode.cli.options import with_flags


def test_a_size_that_is_none_is_told_before_anything_is_read(capsys):
    sizes = ["--nodes", "9", "--edges", "9", "--columns", "9"]
    assert build_parser().parse_args(["plan", *sizes, "--memory", "1.5g"]).memory == 3 << 29
    with pytest.raises(SystemExit):
        build_parser().parse_args(["label", "m", "--memory", "much"])
    assert "argument --memory: 'much': write a size, for example 4GB" in capsys.readouterr().err


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
