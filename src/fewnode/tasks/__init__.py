"""Class splits and few-shot tasks."""

from .batch import Tasks
from .sampling import TaskSampler, draw_tasks
from .split import ClassSplit, random_split, training_view

__all__ = ["ClassSplit", "TaskSampler", "Tasks", "draw_tasks", "random_split", "training_view"]
