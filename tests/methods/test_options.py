"""Options given as text become values of the types in the method's signature."""

from typing import Literal

import pytest

from fewnode import methods, planted
from fewnode.errors import InputError
from fewnode.files import Count, Positive
from fewnode.methods import find
from fewnode.methods.base import checked_options, option_types, option_value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("1e-3", float, 1e-3),
        ("-0.5", float | None, -0.5),
        ("none", int | None, None),
        ("7", int | None, 7),
        ("true", bool, True),
        ("False", bool, False),
        ("paper", Literal["paper", "released"], "paper"),
        ("paper", Literal["paper", "released"] | None, "paper"),
        ("12", str, "12"),
        ("(16, 32)", tuple[int, ...], (16, 32)),
        (3, float, 3.0),
        (None, float | None, None),
        (True, bool, True),
        ([16, 32], tuple[int, ...], (16, 32)),
        ("5", Positive, 5),
    ],
)
def test_values_take_the_declared_type(text, kind, value):
    parsed = option_value("option", text, kind)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("3.5", int, ["'3.5'", "a whole number"]),
        ("True", int, ["'True'", "a whole number"]),
        ("much", float, ["'much'", "a number"]),
        ("maybe", bool, ["'maybe'", "true or false"]),
        ("papr", Literal["paper", "released"], ["'papr'", "Did you mean 'paper'", "released"]),
        ("papr", Literal["paper", "released"] | None, ["'papr'", "Did you mean 'paper'", "released"]),
        ("16", tuple[int, ...], ["'16'", "tuple"]),
        ("nan", float, ["'nan'", "a number"]),
        (float("inf"), float | None, ["inf", "a number"]),
        (True, int, ["True", "a whole number"]),
        ("0", Positive, ["'0'", "a whole number of at least 1"]),
        (-1, Count, ["-1", "a whole number of at least 0"]),
        ("0", Positive | None, ["'0'", "a whole number of at least 1"]),
    ],
)
def test_other_values_are_refused_with_what_would_be_right(text, kind, words):
    with pytest.raises(InputError) as caught:
        option_value("option", text, kind)
    for word in ["option", *words]:
        assert word in str(caught.value)


def test_options_come_from_the_signature():
    assert checked_options(find("probe"), {"smooth": "false", "rank": "64"}) == {"smooth": False, "rank": 64}
    with pytest.raises(InputError, match=r"unknown option of probe 'smoth'\. Did you mean 'smooth'"):
        checked_options(find("probe"), {"smoth": "false"})
    assert "learning_rate" not in option_types(find("probe"))  # nothing to train


@pytest.mark.parametrize("name", ["check_every", "tasks_per_step", "train_way", "train_shot", "train_query"])
def test_sizes_of_a_training_are_at_least_one(name):
    with pytest.raises(InputError, match=f"{name}=0: expected a whole number of at least 1"):
        checked_options(find("pn"), {name: 0})


def test_what_fit_fills_in_is_no_option():
    graph, _ = planted(60, 4, seed=0)
    for name in methods.names():
        found, _ = find(name).context(graph, {})
        assert not {"in_channels", "base_classes", "n_way", "k_shot", *found} & set(option_types(find(name)))
