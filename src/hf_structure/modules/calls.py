"""
Methods that run as calls of their module.

Offloading and FSDP bring a module's parameters in hooks of calls: at any other time they may be on the meta device.
If methods other than `forward` read them, decorate the class with [`with_calls`] and these methods with [`by_call`].
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, TypeVar, cast

import torch
from torch import nn
from transformers import PreTrainedModel

MixinBase = PreTrainedModel if TYPE_CHECKING else object  # the class that mixins are mixed into
Function = TypeVar("Function", bound=Callable)
Class = TypeVar("Class", bound=type[nn.Module])


def no_compile(function: Function) -> Function:
    """[`torch.compiler.disable`], which hides the type."""
    return cast(Function, torch.compiler.disable(function))


def by_call(method: Function) -> Function:
    """Makes a method a call of its module, a class of [`with_calls`]."""

    @wraps(method)
    def call(module: nn.Module, *args, **kwargs):
        return module(*args, called_method=method, **kwargs)

    return cast(Function, call)


def with_calls(cls: Class) -> Class:
    """Lets `forward` run the method named by a call, by default itself."""
    forward = cls.forward

    @wraps(forward)
    def run(module: nn.Module, *args, called_method: Callable = forward, **kwargs):
        return called_method(module, *args, **kwargs)

    cls.forward = run
    return cls
