"""What a person says: every step changes what it should, can be undone without end, and wrong ones are refused."""

import pytest

from fewnode.errors import InputError
from fewnode.files import convert
from fewnode.labelling.labels import SETTLED, Answer, Labels, Step


class Latest:
    """The labels after all steps so far."""

    def __init__(self, labels):
        self.labels = labels

    def __getattr__(self, name):
        return getattr(self.labels, name)


@pytest.fixture
def labels():
    return Latest(Labels(known=("baker", "barber")))


def do(latest, kind, **step):
    latest.labels = latest.after(convert({"do": kind, **step}, Step, "the step"))


def test_nodes_are_given_to_classes_and_taken_back(labels):
    do(labels, "class", name="mule")
    do(labels, "label", nodes=["a", "b"], **{"class": "mule"})
    do(labels, "label", nodes=["c"], **{"class": "phisher"})  # a new name makes a class
    do(labels, "label", nodes=["d"], **{"class": "baker"})
    do(labels, "label", nodes=["e"], **{"class": "other"})
    do(labels, "skip", nodes=["f", "a"])  # what has a class keeps it
    assert labels.classes == ("mule", "phisher")
    assert labels.examples() == {"mule": ["a", "b"], "phisher": ["c"], "baker": ["d"], "other": ["e"]}
    assert labels.marks["f"] == "" and labels.count_answers() == 4
    do(labels, "take", nodes=["b"])
    do(labels, "label", nodes=["a"], **{"class": "phisher"})  # another class after all
    assert labels.examples() == {"phisher": ["a", "c"], "baker": ["d"], "other": ["e"]}


def test_classes_are_renamed_merged_and_removed(labels):
    do(labels, "label", nodes=["a"], **{"class": "mule"})
    do(labels, "label", nodes=["b"], **{"class": "phisher"})
    do(labels, "rename", name="mule", to="Mule")  # only the case: the same class
    do(labels, "rename", name="Mule", to="donkey")
    assert labels.classes == ("donkey", "phisher") and labels.examples()["donkey"] == ["a"]
    do(labels, "merge", name="donkey", into="phisher")
    assert labels.classes == ("phisher",) and labels.examples() == {"phisher": ["a", "b"]}
    do(labels, "remove", name="phisher")
    assert labels.classes == () and labels.marks == {}


def test_undo_and_redo_have_no_end_and_lead_to_the_same_places(labels):
    states = []
    for i in range(300):
        states.append((labels.classes, dict(labels.marks)))
        do(labels, "label", nodes=[f"n{i}", f"n{i // 2}"], **{"class": f"c{i % 7}"})
    last = (labels.classes, dict(labels.marks))
    for state in reversed(states):
        do(labels, "undo")
        assert (labels.classes, labels.marks) == state
    with pytest.raises(InputError, match="nothing to undo"):
        do(labels, "undo")
    for _ in states:
        do(labels, "redo")
    assert (labels.classes, labels.marks) == last
    do(labels, "undo")
    do(labels, "class", name="fresh")
    with pytest.raises(InputError, match="nothing to redo"):  # another step was taken since
        do(labels, "redo")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"do": "dance"}, "unknown step 'dance'"),
        ({}, "unknown step ''"),
        ({"do": "class", "name": "  "}, "without a name"),
        ({"do": "class", "name": 7}, "name: Expected `str`"),
        ({"do": "class", "name": "MULE"}, "there is a class 'mule' already"),
        ({"do": "class", "name": "baker"}, "there is a class 'baker' already"),
        ({"do": "class", "name": "Other"}, "'other' already"),
        ({"do": "class", "name": "unknown"}, "'unknown' already"),
        ({"do": "class", "name": "a\nb"}, "in one line"),
        ({"do": "class", "name": "x" * 201}, "at most 200 letters"),
        ({"do": "label", "nodes": [], "class": "mule"}, "no node is selected"),
        ({"do": "label", "nodes": "n1", "class": "mule"}, "nodes: Expected `array`"),
        ({"do": "label", "nodes": [1], "class": "mule"}, "Expected `str`"),
        ({"do": "label", "nodes": ["a"], "class": "mule"}, "changes nothing"),
        ({"do": "take", "nodes": ["z"]}, "changes nothing"),
        ({"do": "rename", "name": "baker", "to": "b"}, "unknown class of your own 'baker'"),
        ({"do": "merge", "name": "mule", "into": "mule"}, "unknown class 'mule'"),
        ({"do": "remove", "name": "mul"}, "Did you mean 'mule'"),
    ],
)
def test_wrong_steps_are_refused_and_change_nothing(labels, step, message):
    do(labels, "label", nodes=["a"], **{"class": "mule"})
    with pytest.raises(InputError, match=message):
        labels.after(convert(step, Step, "the step"))
    assert labels.classes == ("mule",) and labels.marks == {"a": "mule"}


def test_names_keep_strange_letters(labels):
    for name in ("<script>alert(1)</script>", "=cmd()", "\u202egnp.exe", "木"):
        do(labels, "label", nodes=[name], **{"class": name})
        assert labels.examples()[name] == [name]
    with pytest.raises(InputError, match="no class of your own"):
        Labels().after(Step("remove", name="x"))


def test_a_class_with_too_few_labels_is_given_no_more():
    labels = Labels(known=("baker", "barber"), small=("barber",))
    with pytest.raises(InputError, match="'barber' has labels in the graph, but too few to learn from"):
        labels.after(Step("label", ["n1"], label="barber"))
    assert labels.after(Step("label", ["n1"], label="baker")).answers == {"n1": {"": Answer("baker")}}
    assert labels.answers == {}


def test_people_answer_apart_and_the_majority_counts(labels):
    for who, name in (("ann", "mule"), ("bob", "phisher")):
        do(labels, "label", nodes=["a"], who=who, **{"class": name})
    assert labels.marks == {"a": None} and labels.examples() == {}  # they differ
    do(labels, "label", nodes=["a"], who="cid", **{"class": "mule"})
    assert labels.marks == {"a": "mule"}
    do(labels, "label", nodes=["a"], who="bob", settle=True, **{"class": "phisher"})
    assert labels.marks == {"a": "phisher"} and labels.answers["a"][SETTLED] == Answer("phisher")
    do(labels, "take", nodes=["a"], who="cid")  # takes the decision back as well
    assert labels.marks == {"a": None}


def test_an_unsure_answer_waits_and_a_comment_stays(labels):
    do(labels, "label", nodes=["a"], unsure=True, text="looks odd", **{"class": "mule"})
    assert labels.marks == {"a": None} and labels.examples() == {}
    do(labels, "label", nodes=["a"], **{"class": "mule"})
    assert labels.answers["a"][""] == Answer("mule", False, "looks odd") and labels.marks == {"a": "mule"}
    do(labels, "label", nodes=["a"], text="", **{"class": "mule"})
    assert labels.answers["a"][""].text == ""


def test_everybody_undoes_their_own_steps(labels):
    do(labels, "label", nodes=["a"], who="ann", **{"class": "mule"})
    do(labels, "label", nodes=["b"], who="bob", **{"class": "mule"})
    do(labels, "undo", who="ann")
    assert labels.examples() == {"mule": ["b"]} and labels.classes == ("mule",)  # bob uses the class
    with pytest.raises(InputError, match="nothing to undo"):
        do(labels, "undo", who="ann")
    do(labels, "redo", who="ann")
    assert labels.examples() == {"mule": ["b", "a"]}
    do(labels, "rename", name="mule", to="donkey", who="bob")
    do(labels, "undo", who="ann")
    assert labels.examples() == {"donkey": ["b"]}  # what bob has done since stays
    do(labels, "redo", who="ann")
    assert labels.examples() == {"mule": ["a"], "donkey": ["b"]}  # ann said mule, and that is none of bob's classes
    do(labels, "undo", who="bob")
    do(labels, "undo", who="bob")
    assert labels.examples() == {"mule": ["a"]}


def test_what_others_have_built_on_is_not_undone(labels):
    do(labels, "class", name="mule", who="ann")
    do(labels, "rename", name="mule", to="donkey", who="bob")
    with pytest.raises(InputError, match=r"others have worked with it since \(rename mule to donkey"):
        do(labels, "undo", who="ann")
    assert labels.classes == ("donkey",)


def test_what_is_settled_by_one_is_not_undone_with_the_step_of_another(labels):
    for who, name in (("ann", "mule"), ("bob", "phisher")):
        do(labels, "label", nodes=["a"], who=who, settle=True, **{"class": name})
    do(labels, "undo", who="ann")
    assert labels.marks == {"a": "phisher"}


def test_nothing_before_a_new_beginning_is_undone(labels):
    do(labels, "label", nodes=["a"], **{"class": "mule"})
    labels.labels = labels.begun()
    do(labels, "label", nodes=["a", "b"], **{"class": "phisher"})
    do(labels, "undo")
    assert labels.marks == {"a": "mule"}
    with pytest.raises(InputError, match="nothing to undo"):
        do(labels, "undo")


def test_classes_have_descriptions_that_follow_them(labels):
    do(labels, "class", name="mule", text="moves money")
    do(labels, "describe", name="baker", text="bakes")
    do(labels, "rename", name="mule", to="donkey")
    assert labels.about == {"donkey": "moves money", "baker": "bakes"}
    do(labels, "remove", name="donkey")
    assert labels.about == {"baker": "bakes"}
    do(labels, "undo")
    assert labels.about["donkey"] == "moves money"
    with pytest.raises(InputError, match="at most 4,000"):
        do(labels, "describe", name="baker", text="x" * 4001)
