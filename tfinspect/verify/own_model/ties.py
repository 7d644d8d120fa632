"""Whether what a model ties is one parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import torch
from torch import nn

from tfinspect.results.checks import Figure, Findings
from tfinspect.verify.own_model.case import Case, NotApplicable

__all__ = ["ties"]

ONE: Final = "one parameter"
DIFFERENT: Final = "different values"


def ties(case: Case) -> Findings:
    """Whether the output head, where it is tied to the token table, is that table: one parameter, one storage."""
    module = case.subject.module
    named = list(_declared(module, case.width))
    declared = bool(named) or _says_tied(module)
    pairs = named or list(_candidates(module, case.width))
    if not pairs:
        why = "no parameter besides the token table has its shape"
        raise NotApplicable(f"{why}, so what is declared to be tied has one name" if declared else why)
    found = {pair: _relation(*map(module.get_parameter, pair)) for pair in pairs}
    shared = [pair for pair, relation in found.items() if relation == ONE]
    if len(shared) == len(pairs) or (shared and not named):
        return Findings(tuple(Figure(" = ".join(pair), ONE, ONE) for pair in shared))
    apart = {pair: relation for pair, relation in found.items() if relation != ONE}
    pair = next((pair for pair, relation in apart.items() if relation != DIFFERENT), list(apart)[-1])
    if apart[pair] == DIFFERENT and not declared:
        raise NotApplicable("nothing says that it is tied, and its values are its own")
    note = f"{pair[1]} and {pair[0]} {'are declared to be tied' if declared else 'look tied'}: {apart[pair]}."
    return Findings((Figure(f"{pair[1]}, {pair[0]}", apart[pair], ONE),), notes=(note,))


def _relation(one: nn.Parameter, other: nn.Parameter) -> str:
    """How two parameters belong together."""
    if one is other:
        return ONE
    if one.data_ptr() == other.data_ptr() and one.numel():
        return "one storage, two parameters"
    turned = other.T if one.shape != other.shape else other
    constant = bool((one == one.flatten()[0]).all())
    if one.shape == turned.shape and not constant and torch.equal(one.detach(), turned.detach().to(one)):
        return "equal values, two storages"
    return DIFFERENT


def _declared(module: nn.Module, width: int) -> Iterator[tuple[str, str]]:
    """(token table, head) of each tie that the model names: transformers' `_tied_weights_keys`."""
    if getattr(getattr(module, "config", None), "tie_word_embeddings", True) is False:
        return
    keys = getattr(module, "_tied_weights_keys", None) or ()
    names = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    for key in keys:
        table = keys[key] if isinstance(keys, Mapping) else _table(module, width)
        if key in names and table in names and key != table:
            yield table, key


def _says_tied(module: nn.Module) -> bool:
    """Whether the model says that its head is tied, without saying what to what."""
    config = getattr(module, "config", None)
    flag = getattr(config, "tie_word_embeddings", None)
    return bool(flag) or (flag is None and callable(getattr(module, "tie_weights", None)))


def _candidates(module: nn.Module, width: int) -> Iterator[tuple[str, str]]:
    """(token table, parameter of another name that could be it, as it is or turned)."""
    table = _table(module, width)
    if table is None:
        return
    shape = module.get_parameter(table).shape
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if name != table and parameter.ndim == 2 and parameter.shape in (shape, shape[::-1]):
            yield table, name


def _table(module: nn.Module, width: int) -> str | None:
    """Name of the token table: the embedding with V rows, else with the most; else the first matrix with V rows."""
    rows = {
        f"{n}.weight".lstrip("."): m.num_embeddings for n, m in module.named_modules() if isinstance(m, nn.Embedding)
    }
    if rows:
        return max(rows, key=lambda name: (rows[name] == width, rows[name]))
    matrices = (n for n, p in module.named_parameters() if p.ndim == 2 and p.shape[0] == width)
    return next(matrices, None)
