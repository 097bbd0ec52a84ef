import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewnode.files import guarded, unguarded


@pytest.mark.parametrize("text", ["=1+1", "@sum(A1)", "-2+3+cmd|' /C calc'!D2", "+A1", "\t=1", "'=1"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text):
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-5", "+1.2", "-3e10", "-0.4 ≈", "n-1", "a=b", "", "it's", 5, -0.5, None])
def test_numbers_and_plain_texts_stay_as_they_are(value):
    assert guarded(value) == value


@given(st.text(alphabet="'=+-@a1\t", max_size=6))
def test_the_text_comes_back(text):
    assert guarded(text) == text or unguarded(guarded(text)) == text
    assert guarded(text)[:1] not in ("=", "@")
