import pytest

from fewnode.errors import InputError, one_of


def test_one_of_returns_a_valid_choice():
    assert one_of("method", "pn", ["pn", "gpn"]) == "pn"


def test_one_of_names_the_value_the_close_match_and_the_choices():
    with pytest.raises(InputError, match=r"unknown method 'tnet'. Did you mean 'tent'\? Valid: pn, tent"):
        one_of("method", "tnet", ["tent", "pn"])
