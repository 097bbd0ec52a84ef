import msgspec
import pytest

from fewnode.errors import InputError, one_of, refused


def test_one_of_returns_a_valid_choice():
    assert one_of("method", "pn", ["pn", "gpn"]) == "pn"


def test_one_of_names_the_value_the_close_match_and_the_choices():
    with pytest.raises(InputError, match=r"unknown method 'tnet'. Did you mean 'tent'\? Valid: pn, tent"):
        one_of("method", "tnet", ["tent", "pn"])


def test_refused_errors_name_the_reason_and_the_remedy():
    damaged = refused("x.csv is damaged", ValueError, remedy="write it again")
    with pytest.raises(InputError, match=r"^x\.csv is damaged: line 1; write it again$") as caught, damaged:
        raise ValueError("line 1\nline 2")
    with pytest.raises(InputError) as same, refused("outside", ValueError):
        raise caught.value  # an InputError has said everything
    assert same.value is caught.value
    with pytest.raises(KeyError), refused("x", ValueError):
        raise KeyError("y")
    with pytest.raises(InputError, match=r"^x: KeyError$"), refused("x", KeyError):
        raise KeyError
    with pytest.raises(InputError, match=r"^x: \[0\]: Expected `int`, got `str`$"), refused("x", ValueError):
        msgspec.convert(["a"], list[int])
