from dataclasses import dataclass

import pytest

from fewnode.errors import InputError
from fewnode.files import parse_json, parse_toml


@dataclass
class Shape:
    rows: int
    names: tuple[str, ...] = ()


def test_a_document_becomes_what_it_must_be():
    assert parse_json(b'{"rows": 3, "names": ["a"], "more": 1}', Shape, "it") == Shape(3, ("a",))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"rows": "3"}', "rows: Expected `int`, got `str`"),
        (b'{"rows": 3, "names": "abc"}', "names: Expected `array`, got `str`"),
        (b"{}", "Object missing required field `rows`"),
        (b'{"rows": 3', "is not a JSON file"),
        (b"\xff", "is not a JSON file"),
        (b'{"rows": NaN}', "is not a JSON file"),
        (b'{"rows": 1e999}', "out of range"),
        (b'{"names": ' + b"[" * 1_000_000, "names"),
        (b'{"more": ' + b"[" * 1_000_000, "maximum recursion depth exceeded"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(data, words):
    with pytest.raises(InputError, match=words) as error:
        parse_json(data, Shape, "some.json")
    assert "some.json" in str(error.value)


def test_brackets_in_texts_do_not_count_as_nesting():
    assert parse_json(b'["' + b"[" * 1000 + b'\\"{"]', list[str], "it") == ["[" * 1000 + '"{']


@pytest.mark.parametrize("data", [b"a = ", b"\xff\xfe", b"a = " + b"[" * 100_000, b"a = 1\na = 2"])
def test_toml_that_is_none_is_named(data):
    with pytest.raises(InputError, match=r"grid\.toml is not a TOML file"):
        parse_toml(data, "grid.toml")
