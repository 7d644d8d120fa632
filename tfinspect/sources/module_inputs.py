"""What a user's module is called with: drawn as the command line says, read from a file, or made by a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tfinspect.errors import InputError, described
from tfinspect.measured.memory import require_bytes
from tfinspect.sources import input_file
from tfinspect.sources.input_spec import InputSpec, ListSpec, Literal, MappingSpec, TensorSpec, Value, parse
from tfinspect.sources.user_module import called

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tfinspect.measured.inputs import Inputs

__all__ = ["Given", "advice", "example", "given", "initialise", "require_inputs"]

_NO_MEMORY: Final = "give smaller sizes, or --meta for shapes without memory"


class Given(NamedTuple):
    """A call of a module, and what its caller should know of it."""

    inputs: Inputs
    remarks: tuple[str, ...]


def given(
    texts: Sequence[str] = (),
    *,
    file: str | None = None,
    function: str | None = None,
    seed: int = 0,
    meta: bool = False,
) -> Given:
    """The inputs that were asked for: those of a file first, then those that are drawn, in their order.

    Integers are uniform from 0 to below their bound, bool is false or true, and floats are standard normal; the draws
    have a generator of their own. On the meta device nothing is drawn and nothing takes memory.

    Raises:  InputError for a text, a file or a function that gives no inputs, a keyword given twice, a name of axes
             with two sizes, and what does not fit into memory.
    """
    if function is not None:
        if texts or file is not None:
            raise InputError("--inputs makes all inputs, and stands alone", "leave out --input and --input-file")
        return Given(_placed(*_made(function, seed), {}, meta=meta), ())
    specs = [parse(text) for text in texts]
    args, kwargs = input_file.read(Path(file)) if file is not None else ((), {})
    axes = dict(_axes(specs, len(args)))
    _require_one_size(axes)
    if not meta:
        require_bytes(sum(tensor.n_bytes for spec in specs for tensor in spec.tensors()), "the input", _NO_MEMORY)
    draw = _drawing(seed, meta=meta)
    drawn: list[Any] = []
    for spec in specs:
        value = _value(spec.value, draw)
        if spec.name is None:
            drawn.append(value)
        elif spec.name in kwargs:
            raise InputError(f"the input {spec.name!r} is given twice", "give it once")
        else:
            kwargs[spec.name] = value
    names = {path: tuple(name for name, _ in tensor.axes) for path, tensor in axes.items()}
    return Given(_placed((*args, *drawn), kwargs, names, meta=meta), () if meta else _remarks(specs))


def require_inputs(module: nn.Module, inputs: Inputs) -> None:
    """Nothing where inputs are given, or where the module's forward takes none.

    Raises:  InputError with an input that fits the first layer.
    """
    if inputs.args or inputs.kwargs or not _parameters(module):
        return
    raise InputError("no input is given", example(module))


def initialise(module: nn.Module, inputs: Inputs) -> None:
    """Give lazy parameters their shapes, by one forward pass; a module without any is not run.

    Raises:  InputError where the pass fails.
    """
    import torch
    from torch.nn.parameter import is_lazy

    if not any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        return
    training = module.training
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            module.eval()(*inputs.args, **inputs.kwargs)
    except (Exception, SystemExit) as error:
        raise InputError(f"the forward pass raised {described(error)}", "give an input that it takes") from None
    finally:
        module.train(training)


def example(module: nn.Module) -> str:
    """What to write, as far as the module's first layer tells: its `--input`."""
    needed = [
        p.name for p in _parameters(module) if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    also = f"; forward needs {', '.join(needed)}" if len(needed) > 1 else ""
    found = next(_first_layers(module), None)
    keyword = next((p.name for p in _parameters(module) if p.kind is p.KEYWORD_ONLY and p.name in needed), None)
    name = f"{keyword}=" if keyword and keyword == needed[0] else ""
    if found is None:
        return f'say its number format and sizes: --input "{name}float32[1,16]"{also}'
    _, layer, spec = found
    return f'the first layer is {layer}: try --input "{name}{spec}"{also}'


def advice(module: nn.Module, path: str) -> str:
    """What to write where the module at a path raised: an input that fits, if it is the first layer; else nothing."""
    first = next(_first_layers(module), None)
    return example(module) if first is not None and first[0] == path else ""


def _made(function: str, seed: int) -> input_file.Call:
    found = called(function, seed)
    call = input_file.as_call(found)
    if call is None:
        hint = "it has to return a tuple of arguments, a dict of keywords, (args, kwargs), or a tensor"
        raise InputError(f"{function!r} returned {type(found).__name__}, not inputs", hint)
    return call


def _placed(args: Sequence[Any], kwargs: dict[str, Any], axes: dict[str, Any], *, meta: bool) -> Inputs:
    from tfinspect.measured.inputs import Inputs

    inputs = Inputs(tuple(args), kwargs, axes)
    return inputs.mapped(lambda _, tensor: tensor.to("meta")) if meta else inputs


def _axes(specs: Sequence[InputSpec], n_args: int) -> Iterator[tuple[str, TensorSpec]]:
    """Each tensor that names an axis, by its path."""
    for spec in specs:
        path = str(n_args) if spec.name is None else spec.name
        n_args += spec.name is None
        for inner, tensor in _paths(path, spec.value):
            if any(name is not None for name, _ in tensor.axes):
                yield inner, tensor


def _paths(path: str, value: Value) -> Iterator[tuple[str, TensorSpec]]:
    if isinstance(value, TensorSpec):
        yield path, value
    elif isinstance(value, ListSpec):
        for place, item in enumerate(value.items):
            yield from _paths(f"{path}[{place}]", item)
    elif isinstance(value, MappingSpec):
        for key, item in value.items:
            yield from _paths(f"{path}.{key}", item)


def _require_one_size(axes: dict[str, TensorSpec]) -> None:
    """Nothing where each name has one size, before anything is drawn.

    Raises:  InputError naming both places and both sizes.
    """
    seen: dict[str, tuple[str, int]] = {}
    for path, tensor in axes.items():
        for name, size in tensor.axes:
            if name is None:
                continue
            where, first = seen.setdefault(name, (path, size))
            if first != size:
                raise InputError(f"{name} is {first} in input {where} and {size} in input {path}", "give it one size")


def _value(value: Value, draw: Callable[[TensorSpec], Tensor]) -> Any:
    if isinstance(value, TensorSpec):
        return draw(value)
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, MappingSpec):
        return {key: _value(item, draw) for key, item in value.items}
    items = [_value(item, draw) for item in value.items]
    return tuple(items) if value.is_tuple else items


def _drawing(seed: int, *, meta: bool) -> Callable[[TensorSpec], Tensor]:
    """Draws one tensor after the other."""
    import torch

    generator = torch.Generator("cpu").manual_seed(seed % 2**63)

    def draw(spec: TensorSpec) -> Tensor:
        dtype = getattr(torch, spec.dtype)
        if meta:
            return torch.empty(spec.shape, dtype=dtype, device="meta")
        if spec.integral or dtype is torch.bool:
            bound = 2 if spec.bound is None else spec.bound
            return torch.randint(0, bound, spec.shape, generator=generator, dtype=torch.int64).to(dtype)
        drawn_in = dtype if dtype.is_complex or dtype is torch.float64 else torch.float32
        return torch.randn(spec.shape, generator=generator, dtype=drawn_in).to(dtype)

    return draw


def _remarks(specs: Sequence[InputSpec]) -> tuple[str, ...]:
    """What was assumed: integers without a bound."""
    free = [str(tensor) for spec in specs for tensor in spec.tensors() if tensor.integral and tensor.bound is None]
    return (f"{', '.join(free)} has no bound: only 0 and 1 are drawn; {free[0]}<100 draws below 100",) if free else ()


def _parameters(module: nn.Module) -> list[inspect.Parameter]:
    """What a module's forward takes; nothing where that is not known."""
    try:
        return list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        return []


def _first_layers(module: nn.Module) -> Iterator[tuple[str, str, str]]:
    """Layers that say what they take, in the order in which the module has them: (path, words, an input for it)."""
    for path, layer in module.named_modules():
        words, spec = _taken(layer)
        if spec:
            yield path, words, spec


def _taken(layer: nn.Module) -> tuple[str, str]:
    """(a layer in words, an input for it); nothing for one that does not say what it takes."""
    from torch import nn

    name = type(layer).__name__
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        return f"{name}({layer.num_embeddings}, {layer.embedding_dim})", f"int64[1,16]<{layer.num_embeddings}"
    weight = next(layer.parameters(), None)
    dtype = "float32" if weight is None else str(weight.dtype).removeprefix("torch.")
    if isinstance(layer, nn.Linear):
        return f"{name}({layer.in_features}, {layer.out_features})", f"{dtype}[1,{layer.in_features}]"
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        side = 224 if layer.kernel_size[0] >= 7 else 32
        sides = ",".join([str(side)] * len(layer.kernel_size))
        return f"{name}({layer.in_channels}, {layer.out_channels})", f"{dtype}[1,{layer.in_channels},{sides}]"
    if isinstance(layer, nn.RNNBase):
        return f"{name}({layer.input_size}, {layer.hidden_size})", _sequence(dtype, layer, layer.input_size)
    if isinstance(layer, nn.MultiheadAttention):
        return f"{name}({layer.embed_dim}, {layer.num_heads})", _sequence(dtype, layer, layer.embed_dim)
    return "", ""


def _sequence(dtype: str, layer: Any, width: int) -> str:
    return f"{dtype}[1,16,{width}]" if layer.batch_first else f"{dtype}[16,1,{width}]"
