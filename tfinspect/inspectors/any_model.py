"""The Python entry: one function for each question, whatever the model is.

A spec, a preset or a `Source` goes to the closed forms and to the built-in core; an `nn.Module` is inspected as it is;
of a checkpoint its headers are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from tfinspect.inspectors.modules import is_module
from tfinspect.inspectors.stored import is_checkpoint, stored

if TYPE_CHECKING:
    from torch import nn

    from tfinspect.presets import Preset
    from tfinspect.results.flops import Flops
    from tfinspect.results.module_flops import ModuleFlops
    from tfinspect.results.module_params import ModuleParams
    from tfinspect.results.module_trace import ModuleTrace
    from tfinspect.results.params import Params
    from tfinspect.results.stored import StoredParams
    from tfinspect.results.subject import Described
    from tfinspect.results.trace import Trace
    from tfinspect.sources.checkpoint import Checkpoint
    from tfinspect.spec import ModelSpec

__all__ = ["flops", "params", "trace"]


@overload
def params(model: ModelSpec | Preset | Described, **how: Any) -> Params: ...


@overload
def params(model: nn.Module, **how: Any) -> ModuleParams: ...


@overload
def params(model: Checkpoint, **how: Any) -> StoredParams: ...


def params(model: Any, **how: Any) -> Params | ModuleParams | StoredParams:
    """The parameters of a model: a `Params` of a spec, a `ModuleParams` of an `nn.Module`, `StoredParams` of headers.

    The options are those of `inspectors.params.params`, `inspectors.modules.params` and `inspectors.stored.stored`:
    check, expect, per_tensor, for a module depth and name, and for a checkpoint depth and tied_head.

    Raises:  InputError as they do.

    >>> from torch import nn
    >>> tfinspect.params(tfinspect.ModelSpec()).total, tfinspect.params(nn.Linear(768, 3072)).total
    (124439808, 2362368)
    """
    if is_module(model):
        from tfinspect.inspectors import modules

        return modules.params(model, **how)
    if is_checkpoint(model):
        return stored(model, **how)
    from tfinspect.inspectors.params import params as of_spec

    return of_spec(model, **how)


@overload
def trace(model: ModelSpec | Preset | Described, *args: Any, **how: Any) -> Trace: ...


@overload
def trace(model: nn.Module, *args: Any, **how: Any) -> ModuleTrace: ...


def trace(model: Any, *args: Any, **how: Any) -> Trace | ModuleTrace:
    """One forward pass: of a spec over texts, a `Trace`; of an `nn.Module` over its arguments, a `ModuleTrace`.

    The options are those of `inspectors.trace.trace` and of `inspectors.modules.trace`. A module's keywords go into
    kwargs: ``trace(module, ids, kwargs={"attention_mask": mask}, ops=True)``.

    Raises:  InputError as they do.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
    >>> [(call.path, call.outputs[0].shape) for call in tfinspect.trace(model, torch.zeros(2, 5, 8)).calls]
    [('', '[B, T, 8]'), ('0', '[B, T, 32]'), ('1', '[B, T, 32]'), ('2', '[B, T, 8]')]
    """
    if is_module(model):
        from tfinspect.inspectors import modules

        return modules.trace(model, *args, **how)
    from tfinspect.inspectors.trace import trace as of_spec

    return of_spec(model, *args, **how)


@overload
def flops(model: ModelSpec | Preset | Described, **how: Any) -> Flops: ...


@overload
def flops(model: nn.Module, *args: Any, **how: Any) -> ModuleFlops: ...


def flops(model: Any, *args: Any, **how: Any) -> Flops | ModuleFlops:
    """The work of one forward pass: a `Flops` of a spec, a `ModuleFlops` of an `nn.Module` over its arguments.

    The options are those of `inspectors.flops.flops` and of `inspectors.modules.flops`.

    Raises:  InputError as they do.

    >>> import torch
    >>> work = tfinspect.flops(torch.nn.Linear(768, 3072), torch.zeros(1, 1024, 768))
    >>> work.total_multiplications == 1024 * 768 * 3072, dict(work.by_operator)
    (True, {'aten.addmm': 4831838208})
    """
    if is_module(model):
        from tfinspect.inspectors import modules

        return modules.flops(model, *args, **how)
    from tfinspect.inspectors.flops import flops as of_spec

    return of_spec(model, *args, **how)
