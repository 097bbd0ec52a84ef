"""Class ids of every data set to learn from, to select on and to test on: written out, so none drifts."""

from typing import NamedTuple


class Parts(NamedTuple):
    """Base, validation and novel class ids."""

    base: tuple[int, ...]
    validation: tuple[int, ...]
    novel: tuple[int, ...]


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split())


# TENT's lists (Wang et al., KDD 2022): 25 / 20 / 25.
CORA_FULL = Parts(
    base=_ids("3 8 17 20 21 24 25 26 28 32 35 36 37 38 40 42 44 47 52 55 57 62 63 67 69"),
    validation=_ids("2 51 48 27 13 54 46 64 16 68 6 31 60 33 65 43 23 19 18 34"),
    novel=_ids("56 14 0 11 4 10 12 49 22 15 1 59 50 58 61 41 39 30 53 29 9 5 66 45 7"),
)

# TENT's lists: 91 / 36 / 40 (the paper prints 90 / 37 / 40).
AMAZON_E = Parts(
    base=_ids(
        """
        2 11 12 14 15 17 18 19 20 22 24 26 29 33 35 36 39 41 43 44 46 48 52 54 55 57 58 59 62 65
        66 69 70 72 73 74 75 76 77 78 80 84 86 88 90 91 92 94 95 96 100 101 103 104 105 106 112
        113 114 115 118 119 120 121 122 123 125 127 128 129 133 134 136 138 141 142 146 147 151
        152 153 154 155 156 158 159 161 162 164 165 166
        """
    ),
    validation=_ids(
        """
        107 56 83 143 64 50 45 109 37 79 150 89 111 7 87 16 0 60 28 116 81 110 67 32 13 149 98
        85 30 130 93 40 163 8 63 21
        """
    ),
    novel=_ids(
        """
        1 131 132 4 6 135 5 137 10 9 139 140 144 3 145 148 23 25 27 157 31 160 34 38 42 47 49 51
        53 61 68 71 82 97 99 102 108 117 124 126
        """
    ),
)

# TENT's lists: 80 / 27 / 30.
DBLP = Parts(
    base=_ids(
        """
        12 13 14 15 17 24 27 28 30 31 33 34 35 37 39 40 41 42 43 45 47 48 49 50 51 52 53 54 55
        56 57 58 62 64 65 66 67 68 70 71 72 73 75 76 78 80 81 82 83 84 85 86 89 91 92 93 94 96
        97 98 102 103 105 106 108 109 111 113 114 116 119 121 122 125 126 129 130 132 134 135
        """
    ),
    validation=_ids(
        """
        127 74 26 2 20 95 11 107 110 18 22 61 44 6 10 117 59 104 101 79 99 77 32 131 36 133 5
        """
    ),
    novel=_ids(
        """
        128 1 0 3 4 7 8 136 9 16 19 21 23 25 29 38 46 60 63 69 87 88 90 100 112 115 118 120 123
        124
        """
    ),
)

# TENT's lists: 15 / 5 / 20.
OGBN_ARXIV = Parts(
    base=_ids("32 34 3 35 38 39 10 13 16 17 18 21 23 26 27"),
    validation=_ids("8 12 9 1 33"),
    novel=_ids("28 7 0 5 2 36 6 22 15 37 30 25 29 11 20 19 31 24 14 4"),
)

# Novel: the classes of Amazon_clothing_test.mat. The other 57 were shuffled by random.Random(0) and cut 40
# / 17.
AMAZON_CLOTHING = Parts(
    base=_ids(
        """
        0 1 4 5 6 7 8 12 13 15 16 18 19 23 27 29 33 37 39 40 45 47 49 50 53 56 57 58 59 60 63 64
        66 67 69 71 72 73 75 76
        """
    ),
    validation=_ids("3 10 17 21 24 26 32 34 35 36 42 43 44 52 68 70 74"),
    novel=_ids("2 9 11 14 20 22 25 28 30 31 38 41 46 48 51 54 55 61 62 65"),
)

# All 20 classes, shuffled by random.Random(0), cut 5 / 5 / 10, so that 10-way tasks can be drawn.
AMAZON_CLOTHING_TEST20 = Parts(
    base=_ids("0 10 14 16 18"),
    validation=_ids("2 3 9 11 17"),
    novel=_ids("1 4 5 6 7 8 12 13 15 19"),
)

# All 15 classes, shuffled by random.Random(0), cut 5 / 5 / 5.
COAUTHOR_CS = Parts(
    base=_ids("1 5 9 10 11"),
    validation=_ids("2 3 4 7 8"),
    novel=_ids("0 6 12 13 14"),
)

# The 52 classes with at least 15 labelled nodes, shuffled by random.Random(0), cut 22 / 10 / 20.
NELL_PARTIAL = Parts(
    base=_ids("0 1 4 5 7 11 12 16 22 34 36 42 43 45 48 51 54 56 66 70 85 91"),
    validation=_ids("3 10 17 19 24 28 33 58 63 89"),
    novel=_ids("2 6 8 9 15 18 20 21 27 29 31 32 37 40 41 50 55 77 78 80"),
)

# The 21 classes with at least 15 nodes, shuffled by random.Random(0), cut 6 / 5 / 10 so that ten ways can
# be tested.
EMAIL_EU_CORE = Parts(
    base=_ids("0 13 17 22 23 36"),
    validation=_ids("4 5 7 11 14"),
    novel=_ids("1 6 8 9 10 15 16 19 21 37"),
)

# All 18 classes, shuffled by random.Random(0), cut 5 / 5 / 8.
LASTFM_ASIA = Parts(
    base=_ids("0 2 9 11 16"),
    validation=_ids("3 5 10 15 17"),
    novel=_ids("1 4 6 7 8 12 13 14"),
)

# Chosen by hand, 20 / 10 / 15: nouns 12 / 6 / 8, verbs 6 / 3 / 6, one kind of adjective in each, adverbs
# in base; large and small classes in each part (ids are numbers of lexicographer files).
WORDNET = Parts(
    base=_ids("0 2 4 5 7 8 10 11 14 15 18 22 23 26 30 31 35 37 40 42"),
    validation=_ids("3 12 17 21 25 28 29 33 41 44"),
    novel=_ids("1 6 9 13 16 19 20 24 27 32 34 36 38 39 43"),
)

# All 40 classes of a planted graph, as random_split with seed 0 cuts them.
PLANTED = Parts(
    base=_ids("0 1 2 5 8 9 11 13 16 17 20 21 25 35 38 39"),
    validation=_ids("4 19 22 28 30 31 32 33"),
    novel=_ids("3 6 7 10 12 14 15 18 23 24 26 27 29 34 36 37"),
)
