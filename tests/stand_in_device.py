"""A stand-in for a GPU: tensors that are marked as being on it, and the rules by which torch refuses to mix devices.

``with StandIn() as device`` makes "cuda:0" usable on a machine without one. Values are computed by the processor;
what is checked is where every tensor would be. Backward passes are not watched.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

DEVICE = torch.device("cuda:0")
MARK = "_on_stand_in"


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def marked(tensor: Tensor) -> bool:
    return bool(tensor.__dict__.get(MARK, False))


class StandIn(TorchFunctionMode):
    def __enter__(self) -> torch.device:
        super().__enter__()
        return DEVICE

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        owner = resolve_name(func) or name
        first = args[0] if args and isinstance(args[0], Tensor) else None
        if owner.startswith("torch.Tensor.") and name == "__get__" and first is not None:
            return self._attribute(func, owner, first)
        if name == "__set__":  # tensor.data = ..., tensor.grad = ...
            func(*args, **kwargs)
            if owner.endswith(".data.__set__"):
                args[0].__dict__[MARK] = marked(args[1])
            return None
        if first is not None and name in ("to", "cpu", "cuda"):
            return self._moved(func, name, first, args, kwargs)
        if first is not None and marked(first) and name in ("numpy", "__array__"):
            raise TypeError("can't convert a tensor on the stand-in device to numpy; use Tensor.cpu() first")
        place = kwargs.get("device")
        placed = place is not None and torch.device(place).type == "cuda"
        if placed:
            kwargs["device"] = "cpu"
            if kwargs.get("generator") is not None:
                raise RuntimeError("expected a generator on the stand-in device, but found one on the processor")
        here = placed or self._together(name, args, kwargs)
        out = func(*args, **kwargs)
        if here:
            for one in tensors(out):
                one.__dict__[MARK] = True
        return out

    @staticmethod
    def _attribute(func: Callable[..., Any], owner: str, tensor: Tensor) -> Any:
        here = marked(tensor)
        if owner.endswith((".device.__get__", ".is_cpu.__get__", ".is_cuda.__get__")):
            there = {"device": DEVICE, "is_cpu": False, "is_cuda": True}
            return there[owner.split(".")[-2]] if here else func(tensor)
        out = func(tensor)
        if here:
            for one in tensors(out):
                one.__dict__[MARK] = True
        return out

    @staticmethod
    def _moved(func: Callable[..., Any], name: str, tensor: Tensor, args: Any, kwargs: Any) -> Tensor:
        given = kwargs.get("device", args[1] if len(args) > 1 else None)
        if isinstance(given, Tensor):
            target = DEVICE if marked(given) else torch.device("cpu")
        elif isinstance(given, str | torch.device):
            target = torch.device(given)
        else:
            target = DEVICE if marked(tensor) else torch.device("cpu")
        target = {"cpu": torch.device("cpu"), "cuda": DEVICE}.get(name, target)
        if name != "to":
            out = tensor.clone()
        else:
            plain = [torch.device("cpu") if isinstance(arg, str | torch.device) else arg for arg in args]
            kwargs = {key: torch.device("cpu") if key == "device" else value for key, value in kwargs.items()}
            out = func(*plain, **kwargs)
        moved = (target.type == "cuda") != marked(tensor)
        out = out.clone() if moved and out is tensor else out
        out.__dict__[MARK] = target.type == "cuda"
        return out

    @staticmethod
    def _together(name: str, args: Any, kwargs: Any) -> bool:
        """Whether a function works on the device; refused if some of its tensors are elsewhere."""
        found = list(tensors([list(args), kwargs]))
        here = [marked(one) for one in found]
        # What is copied or assigned may come from elsewhere, and indices may be on the processor.
        assigned = here[:1] == [True] and name in ("copy_", "__setitem__", "__getitem__")
        free = assigned or name in ("copy_", "_has_compatible_shallow_copy_type")
        shapes = [tuple(one.shape) for one in found if not marked(one) and one.ndim > 0 and one.numel() > 0]
        if any(here) and shapes and not free:
            raise RuntimeError(f"{name}: expected all tensors to be on the same device; on the processor: {shapes}")
        return here[0] if name == "copy_" else any(here)
