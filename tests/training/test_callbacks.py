import io
import sys
from functools import partial

import pytest

import fewnode
from fewnode.errors import InputError
from fewnode.training import loop
from fewnode.training.loop import TensorBoardLog, TrainingProgress


def test_without_tensorboard_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'fewnode\[log\]'"):
        TensorBoardLog(tmp_path)


def test_steps_and_checks_are_written(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra [log]")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = TensorBoardLog(tmp_path)
    log(TrainingProgress(1, 2, 0.5, None, None, 10.0))
    log(TrainingProgress(2, 2, 0.25, 0.75, 0.75, 10.0))
    found = EventAccumulator(str(tmp_path)).Reload()
    assert [event.value for event in found.Scalars("loss")] == [0.5, 0.25]
    assert [(event.step, event.value) for event in found.Scalars("validation_accuracy")] == [(2, 0.75)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_unless_there_is_a_callback(tiny, monkeypatch):
    seen = {}
    monkeypatch.setattr(loop, "shown", partial(loop.shown, seconds=0.0))  # at once, not after two seconds
    for name, given in {"bar": {}, "silent": {"callback": lambda _: None}}.items():
        monkeypatch.setattr(sys, "stderr", screen := Terminal())
        fewnode.fit("pn", *tiny, n_way=2, k_shot=2, n_query=2, steps=4, check_every=2, **given)
        seen[name] = screen.getvalue()
    assert "training" in seen["bar"] and "100%" in seen["bar"] and seen["silent"] == ""
