"""One forward pass of any `nn.Module`, written down: each call of each module, and each operator inside it.

Modules are heard through torch's global hooks and operators through a dispatch mode, so that nothing is put into the
model itself; both are gone when the pass is over, however it ends. No tensor is held: of each one its shape, its dtype
and, on request, its statistics are taken while it is there.

A fused attention call does in one kernel what the textbook does in three steps. Its scores and weights
[B, h, T, S] never exist; they are written down all the same, marked as not materialised, and a part of the expanded
computation is held against what the kernel gave. The fused encoder layer of torch, which hides the modules inside it,
is switched off while a pass is watched.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import sys
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parameter import is_lazy

from tfinspect.errors import InputError, described
from tfinspect.measured.dispatch import Watcher, without_compiler
from tfinspect.measured.expansion import TOLERANCE, attention, difference
from tfinspect.measured.inputs import Inputs
from tfinspect.measured.operators import Shape, Tally, first_shape, operator, tally
from tfinspect.measured.shapes import statistics
from tfinspect.measured.untouched import Keeper, as_it_was, storage_of
from tfinspect.results.module_trace import ModuleOp, Opened, Value

__all__ = [
    "Frame",
    "Pass",
    "Product",
    "counted",
    "eager",
    "fast_path",
    "fresh",
    "has_lazy",
    "may_be_fused",
    "on_its_device",
    "on_meta",
    "run",
    "settle",
    "slow_path",
    "values",
]

#: Most values of one call that are listed, and deepest nest in which they are looked for.
MOST_VALUES: Final = 64
DEEPEST: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """One matrix product that ran: what a second count needs."""

    operator: str
    inputs: tuple[Shape, ...]
    output: Shape
    transposed: bool
    flops: int


@dataclasses.dataclass(eq=False)
class Frame:
    """One call of one module, while it runs and after."""

    module: nn.Module
    path: str
    parent: int | None
    depth: int
    nth: int
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...] = ()
    flops: int = 0
    """FLOPs of what ran in it outside the modules inside it."""
    ops: list[ModuleOp] = dataclasses.field(default_factory=list)
    attention: list[Opened] = dataclasses.field(default_factory=list)
    writes: set[int] = dataclasses.field(default_factory=set)
    """Storages that were written to in it."""
    in_place: bool = False
    finished: bool = False
    outside: tuple[int, tuple[int, ...]] | None = None
    """(id, its place) of the first that a table of vectors does not have, where the call failed."""
    alive_before: int = 0
    peak: int = 0


@dataclasses.dataclass
class Pass:
    """One forward pass as it was watched."""

    frames: list[Frame] = dataclasses.field(default_factory=list)
    products: list[Product] = dataclasses.field(default_factory=list)
    n_ops: int = 0
    n_uncounted: int = 0
    uncounted: dict[str, None] = dataclasses.field(default_factory=dict)
    used: set[int] = dataclasses.field(default_factory=set)
    """Parameters that an operator was given, by id."""
    unregistered: dict[int, int] = dataclasses.field(default_factory=dict)
    """Elements of parameters that the model does not register, by id."""
    error: BaseException | None = None
    failed_op: str = ""
    """The operator that raised, with the shapes that met; empty where none did."""
    result: Any = None
    """What the model returned, where it was asked to be kept."""
    written: tuple[Tensor, ...] = ()
    """The model's own tensors that it wrote to."""
    grad: bool = False
    """Whether it ran with gradients, which a model needs that differentiates in its forward."""

    @property
    def flops(self) -> int:
        """FLOPs of everything that ran."""
        return sum(product.flops for product in self.products)

    @property
    def by_operator(self) -> dict[str, int]:
        """FLOPs by operator, "aten.addmm"."""
        found: dict[str, int] = {}
        for product in self.products:
            name = f"aten.{product.operator}"
            found[name] = found.get(name, 0) + product.flops
        return found


def run(
    module: nn.Module,
    inputs: Inputs,
    *,
    ops: bool = False,
    stats: bool = False,
    memory: bool = False,
    train: bool = False,
    keep: bool = False,
    grad: bool = False,
    shapes_only: bool = False,
) -> Pass:
    """One forward pass, watched; the model is given back as it was.

    With shapes_only no work is counted and nothing is compared, which is quicker.
    It runs without gradients, unless the model itself differentiates: then once more with them, as `Pass.grad` says.
    An exception of the model ends the pass and is kept in `Pass.error`; Ctrl-C goes through.
    """
    seen, has_compiler = Pass(grad=grad), "torch._dynamo" in sys.modules
    with as_it_was(module, train=train) as keeper:
        listener = _Listener(module, inputs, seen, keeper, ops=ops, stats=stats, memory=memory, shapes_only=shapes_only)
        with slow_path(), eager(), on_its_device(module), without_compiler(), listener.listening(), _Mode(listener):
            try:
                with torch.set_grad_enabled(grad):
                    result = module(*inputs.args, **inputs.kwargs)
            except Exception as error:
                seen.error = error
                if error is not listener.error:  # an operator raised before, and the model went on without it
                    seen.failed_op = ""
            else:
                seen.result = result if keep else None
        seen.written = keeper.written
    asked = {"ops": ops, "stats": stats, "memory": memory, "train": train, "keep": keep, "shapes_only": shapes_only}
    if seen.error is not None and not has_compiler and "torch._dynamo" in sys.modules:
        # the model asked for torch's compiler, whose first import cannot be watched; it is there now
        return run(module, fresh(inputs), **asked, grad=grad)
    if seen.error is not None and not grad and "does not require grad" in described(seen.error):
        return run(module, fresh(inputs), **asked, grad=True)
    return seen


def fresh(inputs: Inputs) -> Inputs:
    """The same call with tensors and caches of its own, so that a pass that writes to them changes nobody's."""
    try:
        args, kwargs = copy.deepcopy((inputs.args, dict(inputs.kwargs)))
    except Exception:  # a tensor with a history, or an object that cannot be copied
        return inputs.mapped(lambda _, tensor: tensor.detach().clone())
    return Inputs(args, kwargs, inputs.axes)


def on_meta(module: nn.Module) -> nn.Module:
    """A copy of a model without values: shapes and no memory.

    Raises:  InputError for a model that cannot be copied.
    """
    stand_ins: dict[int, Any] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        if is_lazy(tensor):  # it is made on the device that it names when its shape is known
            lazy: Any = type(tensor)
            stand_ins[id(tensor)] = lazy(requires_grad=tensor.requires_grad, device="meta", dtype=tensor.dtype)
        else:
            blank = torch.empty_like(tensor, device="meta")
            wants = tensor.requires_grad
            stand_ins[id(tensor)] = nn.Parameter(blank, wants) if isinstance(tensor, nn.Parameter) else blank
    try:
        return copy.deepcopy(module, stand_ins)
    except Exception as error:
        raise InputError(
            f"the model cannot be copied to the meta device: {described(error)}", "leave out --meta (meta=True)"
        ) from None


def settle(module: nn.Module, inputs: Inputs) -> None:
    """Give lazy layers their shapes, for good, by a first pass; one that fails is left for the pass that is watched."""
    with torch.random.fork_rng(devices=[]), torch.no_grad(), contextlib.suppress(Exception):
        module(*inputs.args, **inputs.kwargs)


def has_lazy(module: nn.Module) -> bool:
    """Whether some tensor has no shape before the first pass."""
    return any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers()))


def may_be_fused(module: nn.Module) -> bool:
    """Whether torch may run some layer of it in one fused call, which hides the modules inside."""
    return any(isinstance(inner, _FUSED_LAYERS) for inner in module.modules())


def fast_path(
    module: nn.Module, inputs: Inputs, result: Any, *, written: Iterable[Tensor] = ()
) -> tuple[int, float] | None:
    """(fused encoder calls of a pass that nobody watches, largest difference from a watched result); None without any.

    The difference is a part of the largest output, over all tensors of both results. `written` are the model's own
    tensors that the watched pass wrote to.
    """
    n_fused = 0

    def count(func: Any, *_: Any) -> None:
        nonlocal n_fused
        n_fused += func._overloadpacket in _FUSED_CALLS if hasattr(func, "_overloadpacket") else 0

    with as_it_was(module, train=False, written=written), without_compiler(), Watcher(count):
        try:
            other = module(*inputs.args, **inputs.kwargs)
        except Exception:
            return None
    if not n_fused:
        return None
    worst = 0.0
    for one, two in zip(_tensors(_plain(result)), _tensors(_plain(other)), strict=False):
        if one.shape == two.shape and one.is_floating_point() and one.numel() and one.device.type != "meta":
            largest = one.abs().max().item()
            worst = max(worst, (one - two).abs().max().item() / largest if largest else 0.0)
    return n_fused, worst


def _plain(result: Any) -> Any:
    return list(result.values()) if isinstance(result, Mapping) else result


_FUSED_LAYERS: Final = (nn.MultiheadAttention, nn.TransformerEncoderLayer)
_FUSED_CALLS: Final = frozenset(
    (torch.ops.aten._transformer_encoder_layer_fwd, torch.ops.aten._native_multi_head_attention)
)


def counted(module: nn.Module, inputs: Inputs, *, train: bool = False, like: Pass) -> Tally | None:
    """One forward pass as it is, fused layers and all, under torch's counter with what it misses added.

    None where the counter cannot be on: it asks every operator for shapes, and nested tensors have none. `like` is a
    watched pass of the same model.
    """
    with (
        as_it_was(module, train=train, written=like.written),
        eager(),
        on_its_device(module),
        torch.set_grad_enabled(like.grad),
    ):
        try:
            return tally(lambda: module(*inputs.args, **inputs.kwargs))
        except Exception:
            return None


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Inside, what the caller has compiled runs eagerly, operator by operator."""
    if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
        with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Using `torch.compile")  # it has seen that hooks listen
            yield
    else:
        yield


@contextlib.contextmanager
def on_its_device(module: nn.Module) -> Iterator[None]:
    """Inside, what a model without memory makes without saying where, such as a mask, is without memory too."""
    if any(tensor.device.type == "meta" for tensor in (*module.parameters(), *module.buffers())):
        with torch.device("meta"):
            yield
    else:
        yield


@contextlib.contextmanager
def slow_path() -> Iterator[None]:
    """Inside, torch's encoder layers run module by module instead of in one fused call."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class _Listener:
    """Writes down what hooks and the dispatcher tell."""

    def __init__(
        self,
        module: nn.Module,
        inputs: Inputs,
        seen: Pass,
        keeper: Keeper,
        *,
        ops: bool,
        stats: bool,
        memory: bool,
        shapes_only: bool,
    ) -> None:
        self.seen, self.keeper, self.shapes_only = seen, keeper, shapes_only
        self.wants_ops, self.wants_stats, self.wants_memory = ops, stats, memory
        self.stack: list[int] = []
        self.names: dict[int, list[str]] = {}
        for name, inner in module.named_modules(remove_duplicate=False):
            self.names.setdefault(id(inner), []).append(name)
        self.parameters = {id(p) for p in module.parameters()}
        self.given = {id(tensor) for _, tensor in inputs.tensors()}
        self.times: dict[int, int] = {}
        self.at_work, self.thread = True, threading.get_ident()
        self.error: Exception | None = None
        self.alive = 0
        self.references: dict[int, int] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, every call of every module is heard."""
        before = register_module_forward_pre_hook(self.begins)
        after = register_module_forward_hook(self.ends, with_kwargs=True, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()
            torch_modules._global_forward_hooks_with_kwargs.pop(after.id, None)  # torch leaves it behind

    # modules

    @property
    def hears(self) -> bool:
        """Whether a call belongs to the pass: other threads may run models of their own under torch's global hooks."""
        recording = torch._C._get_tracing_state() is not None  # shapes are tensors while torch records
        return self.at_work and not recording and threading.get_ident() == self.thread

    def begins(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """What torch calls before a module's forward."""
        if not self.hears:
            if self.at_work and id(module) in self.names and threading.get_ident() != self.thread:
                self.seen.uncounted[f"{self.names[id(module)][0]} in another thread"] = None
            return
        parent = self.stack[-1] if self.stack else None
        nth = self.times[id(module)] = self.times.get(id(module), 0) + 1
        frame = Frame(module, self._path(module, parent), parent, len(self.stack), nth, self._values(args, False))
        frame.alive_before = frame.peak = self.alive
        self.stack.append(len(self.seen.frames))
        self.seen.frames.append(frame)

    def ends(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        """What torch calls after it: with keywords and result, or, where it raised, with neither."""
        if not self.hears or not self.stack:
            return
        while self.stack:
            frame = self.seen.frames[self.stack.pop()]
            if frame.module is module:
                break
        if len(rest) < 2:
            if isinstance(module, nn.Embedding | nn.EmbeddingBag) and args:
                frame.outside = self._outside(args[0], module.num_embeddings)
            return
        kwargs, result = rest
        frame.finished = True
        if kwargs:
            positional = _renamed(frame.inputs, args)
            frame.inputs = (*positional, *self._values(kwargs, False))
        frame.outputs = self._values(result, self.wants_stats)
        if frame.writes:
            of_inputs = {storage_of(tensor) for tensor in _tensors((args, kwargs))} - {None}
            frame.in_place = bool(frame.writes & of_inputs)
            if self.stack:
                self.seen.frames[self.stack[-1]].writes |= frame.writes

    def _outside(self, ids: Any, n_rows: int) -> tuple[int, tuple[int, ...]] | None:
        """(id, its place) of the first that is not in a table of so many rows."""
        if not isinstance(ids, Tensor) or ids.is_floating_point() or not _has_values(ids):
            return None
        self.at_work = False
        try:
            places = ((ids < 0) | (ids >= n_rows)).nonzero().tolist()
            return (int(ids[tuple(places[0])]), tuple(places[0])) if places else None
        finally:
            self.at_work = True

    def _path(self, module: nn.Module, parent: int | None) -> str:
        """Where a module stands: below the call that made it, where it has several names."""
        names = self.names.get(id(module))
        above = "" if parent is None else self.seen.frames[parent].path
        if names is None:
            return f"{above}.<{type(module).__name__}>".lstrip(".")
        if len(names) == 1 or not above:
            return names[0]
        below = [name for name in names if name.startswith(f"{above}.")]
        return min(below, key=len) if below else names[0]

    def _values(self, nest: Any, stats: bool) -> tuple[Value, ...]:
        self.at_work = False  # what statistics run is not the model's
        try:
            return values(nest, stats=stats)
        finally:
            self.at_work = True

    # operators

    def before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What comes before an operator: the model's own tensors are kept if it writes to them."""
        if not self.at_work:
            return
        schema = getattr(func, "_schema", None)  # an operator of higher order has none
        if schema is None:
            return
        if not schema.is_mutable and func._overloadpacket not in _WRITES_UNSAID:
            return
        said = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
        written = [value for value, writes in zip(args, said, strict=False) if writes]
        written += [
            kwargs[a.name] for a, writes in zip(schema.arguments, said, strict=True) if writes and a.name in kwargs
        ]
        if func._overloadpacket in _WRITES_UNSAID:
            written += list(args[3:5])  # running mean and variance
        for tensor in _tensors(written):
            self.keeper.before_writing(tensor)
            if self.stack and (address := storage_of(tensor)) is not None:
                self.seen.frames[self.stack[-1]].writes.add(address)

    def after(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """What comes after an operator."""
        if not self.at_work:
            return
        seen = self.seen
        if self.shapes_only:
            if self.stack and _is_fused_attention(func):
                self._open(seen.frames[self.stack[-1]], _name(func), func, args, kwargs, result)
            return
        seen.n_ops += 1
        known = operator(func._overloadpacket if hasattr(func, "_overloadpacket") else func)
        tensors = _tensors((args, kwargs)) if kwargs else _tensors(args)
        is_product = known.flops is not None and not any(tensor.is_nested for tensor in tensors)  # those have no shape
        if not known.accounted_for or (known.flops is not None and not is_product):
            seen.uncounted[known.name] = None
            seen.n_uncounted += 1
        for tensor in tensors:
            if id(tensor) in self.parameters:
                seen.used.add(id(tensor))
            elif isinstance(tensor, nn.Parameter) and id(tensor) not in self.given:
                seen.unregistered[id(tensor)] = tensor.numel()
        flops = known.flops(args, result) if known.flops and is_product else 0
        frame = seen.frames[self.stack[-1]] if self.stack else None
        if is_product:
            shapes = tuple(map(first_shape, tensors))
            transposed = len(args) > 6 and args[6] is True
            name = known.name.removeprefix("aten.")
            seen.products.append(Product(name, shapes, first_shape(result), transposed, flops))
            if frame is not None:
                frame.flops += flops
                self._open(frame, name, func, args, kwargs, result)
        if frame is not None and self.wants_ops:
            frame.ops.append(ModuleOp(known.name, tuple(map(first_shape, tensors)), first_shape(result), flops))
        if self.wants_memory:
            self._weigh(result)

    def raised(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> None:
        """What comes after an operator that raised."""
        self.error = error
        met = ", ".join(f"{_short(t)}{list(first_shape(t))}" for t in _tensors((args, kwargs)))
        self.seen.failed_op = f"{getattr(func, '_overloadpacket', func)} of {met or 'no tensor'}"

    def _open(
        self, frame: Frame, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Write down the steps of a fused attention call."""
        call = attention(name, func._schema, args, kwargs, result) if hasattr(func, "_schema") else None
        if call is None:
            return
        found = None if self.shapes_only else difference(call)
        frame.attention.append(
            Opened(
                f"aten.{name}",
                tuple(call.scores_shape),
                call.causal,
                call.mask is not None,
                None if found is None else found[0],
                TOLERANCE.get(call.output.dtype, 5e-2),
                0 if found is None else found[1],
            )
        )

    # memory

    def _weigh(self, result: Any) -> None:
        """Count the bytes of a result for as long as it lives; views share theirs."""
        for tensor in _tensors(result):
            address = storage_of(tensor)
            if address is None:
                continue
            n_bytes = tensor.untyped_storage().nbytes()
            self.references[address] = self.references.get(address, 0) + 1
            if self.references[address] == 1:
                self.alive += n_bytes
            weakref.finalize(tensor, self._freed, address, n_bytes).atexit = False
        for place in self.stack:
            frame = self.seen.frames[place]
            frame.peak = max(frame.peak, self.alive)

    def _freed(self, address: int, n_bytes: int) -> None:
        left = self.references.get(address, 0) - 1
        if left > 0:
            self.references[address] = left
        elif self.references.pop(address, None) is not None:
            self.alive -= n_bytes


class _Mode(Watcher):
    """The dispatch mode that tells a listener of each operator, before and after."""

    supports_higher_order_operators = True

    def __init__(self, listener: _Listener) -> None:
        super().__init__(listener.after)
        self.listener = listener

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if _decomposes(func) and not any(t.is_nested for t in _tensors((args, kwargs))):  # those have ways of their own
            with self:
                return func.decompose(*args, **kwargs)
        self.listener.before(func, args, kwargs)
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            self.listener.raised(func, args, kwargs, error)
            raise
        self.seen(func, args, kwargs, result)
        return result


def _name(func: Any) -> str:
    """An operator's name without "aten."."""
    return str(getattr(func, "_overloadpacket", func)).removeprefix("aten.")


@functools.cache
def _is_fused_attention(func: Any) -> bool:
    return _name(func).startswith("_scaled_dot_product")


@functools.cache
def _decomposes(func: Any) -> bool:
    """Whether an operator is made of others: tensors of inference mode bring it here whole, all others in its parts."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return isinstance(func, torch._ops.OpOverload) and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


#: Operators that write to what their schema does not say: the running statistics of a batch norm in training.
_WRITES_UNSAID: Final = frozenset((torch.ops.aten.native_batch_norm, torch.ops.aten.cudnn_batch_norm))


def values(nest: Any, *, stats: bool = False) -> tuple[Value, ...]:
    """What stands in arguments or results, by path: tensors with their shape, everything else by its type."""
    found: list[Value] = []
    _walk(nest, "", 0, found, stats)
    return tuple(found)


def _walk(value: Any, path: str, depth: int, found: list[Value], stats: bool) -> None:
    if len(found) >= MOST_VALUES:
        return
    if isinstance(value, Tensor):
        taken = statistics(value.detach()) if stats and _has_values(value) else None
        dtype = str(value.dtype).removeprefix("torch.")
        if value.is_nested:
            found.append(Value(path, "nested tensor", None, dtype))
            return
        found.append(Value(path, "tensor", tuple(value.shape), dtype, _bytes(value), stats=taken))
        return
    items = _items(value, path) if depth < DEEPEST else None
    if items is None:
        found.append(Value(path, type(value).__name__))
        return
    for inner, item in items:
        _walk(item, inner, depth + 1, found, stats)


def _items(value: Any, path: str) -> list[tuple[str, Any]] | None:
    """What stands in a container, by path; None for what is no container."""
    if isinstance(value, Mapping):
        return [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    if isinstance(value, tuple) and len(value) == 1 and not path:
        return [("", value[0])]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f"{path}.{name}" if path else name, getattr(value, name)) for name in value._fields]
    if isinstance(value, list | tuple):
        return [(f"{path}[{place}]" if path else str(place), item) for place, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [(f"{path}.{name}" if path else name, getattr(value, name, None)) for name in names]
    return None


def _renamed(inputs: tuple[Value, ...], args: tuple[Any, ...]) -> tuple[Value, ...]:
    """Positional values beside keywords: a single one is called by its place too."""
    if len(args) == 1 and len(inputs) == 1 and not inputs[0].path:
        return (dataclasses.replace(inputs[0], path="0"),)
    return inputs


def _tensors(nest: Any) -> list[Tensor]:
    """The tensors among an operator's arguments or results, those in lists included."""
    if isinstance(nest, Tensor):
        return [nest]
    if isinstance(nest, dict):
        nest = nest.values()
    elif not isinstance(nest, list | tuple):
        return []
    found: list[Tensor] = []
    for item in nest:
        if isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, list | tuple | dict):
            found += _tensors(item)
    return found


def _has_values(tensor: Tensor) -> bool:
    """Whether its numbers can be looked at: not without memory, not under vmap, not in a format of its own."""
    plain = tensor.layout == torch.strided and not (tensor.is_complex() or tensor.is_nested or tensor.is_quantized)
    return plain and tensor.device.type != "meta" and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _short(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
