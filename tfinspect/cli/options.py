"""Every flag that commands share, declared once with its help and its unit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final, Optional

import typer

from tfinspect.spec import CHOICES, FLAGS

__all__ = ["Check", "Dtype", "Json", "Model", "Seed", "Weights", "model_flags"]

Json = Annotated[bool, typer.Option("--json", help="Write one JSON document instead of text.")]
Check = Annotated[
    bool,
    typer.Option(
        "--check/--no-check",
        help="Measure the real torch model too and compare; exit code 1 if the two differ.",
    ),
]

Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random weights; unused with --weights.")]

Weights = Annotated[
    Optional[str],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Option(
        "--weights",
        metavar="PATH",
        help="Real weights in place of random ones: a safetensors file, an index, a directory with either, or a file "
        "of torch.save. The model is that of the config.json beside them, unless another is named.",
        show_default=False,
    ),
]
Dtype = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--dtype",
        metavar="float32|float64|bfloat16|float16",
        help="Number format of the model.",
        show_default="that of --weights, or float32",
    ),
]

Model = Annotated[
    Optional[str],  # noqa: UP045 - typer on Python 3.10 reads this spelling
    typer.Argument(metavar="[MODEL]", help="A preset, or a config.json or a directory with one.", show_default=False),
]

MODEL_PANEL: Final = "Model (default: GPT-2 Small)"
FEATURE_PANEL: Final = "Features beyond GPT-2"


def _model(kind: type, *spellings: str, metavar: str | None = None, help: str, panel: str = MODEL_PANEL) -> Any:
    option = typer.Option(*spellings, metavar=metavar, help=help, rich_help_panel=panel, show_default=False)
    return Annotated[Optional[kind], option]  # noqa: UP045 - a union with a variable needs the older spelling


def _choice(field: str, help: str, panel: str = MODEL_PANEL) -> Any:
    return _model(str, FLAGS[field], metavar="|".join(CHOICES[field]), help=help, panel=panel)


def _size(field: str, help: str) -> Any:
    return _model(int, FLAGS[field], metavar="N", help=help, panel=FEATURE_PANEL)


def _switch(field: str, help: str) -> Any:
    flag = FLAGS[field]
    return _model(bool, f"{flag}/--no-{flag.removeprefix('--')}", help=help, panel=FEATURE_PANEL)


#: Keyword of `sources.resolve.resolve` and how it is typed.
MODEL_FLAGS: Final[dict[str, Any]] = {
    "preset_name": _model(str, "--preset", metavar="NAME", help="A named model: gpt2-xl, llama-7b, tiny-568, ..."),
    "config": _model(str, "--config", metavar="PATH", help="A Hugging Face config.json, or a directory with one."),
    "d_model": _model(int, "--d", "--d-model", metavar="D", help="Width of the residual stream."),
    "n_layers": _model(int, "--layers", metavar="L", help="Blocks."),
    "n_heads": _model(int, "--heads", metavar="H", help="Attention heads per block; by default d/64."),
    "d_ff": _model(int, "--d-ff", metavar="D_FF", help="Width of the MLP's hidden layer; by default 4d."),
    "vocab_size": _model(int, "--vocab", metavar="V", help="Rows of the token table."),
    "n_ctx": _model(int, "--ctx", metavar="N", help="Longest sequence, in tokens."),
    "placement": _choice("placement", "Where norms stand: before a sublayer, after the sum, both, or parallel."),
    "final_norm": _model(bool, "--final-norm/--no-final-norm", help="A norm after the last block."),
    "activation": _choice("activation", "The MLP's activation."),
    "positions": _choice("positions", "How position enters."),
    "tied_head": _model(bool, "--tied/--untied", help="The output head is the token table itself, or has its own."),
    "bias": _model(bool, "--bias/--no-bias", help="Bias vectors in linear maps and layer norms."),
    "norm_eps": _model(float, "--eps", metavar="X", help="Epsilon added to the variance in layer norms."),
    "dropout": _model(float, "--dropout", metavar="P", help="Dropout probability, in training only."),
    "architecture": _choice("architecture", "One causal stack, one without a mask, or both.", FEATURE_PANEL),
    "n_encoder_layers": _size("n_encoder_layers", "Blocks of the encoder; by default as many as --layers."),
    "n_kv_heads": _size("n_kv_heads", "Heads of keys and values (grouped-query attention); by default --heads."),
    "d_head": _size("d_head", "Width of one head; by default d/heads."),
    "norm": _choice("norm", "LayerNorm or RMSNorm.", FEATURE_PANEL),
    "qk_norm": _switch("qk_norm", "A norm over each head of Q and K."),
    "position_offset": _size("position_offset", "Rows of the learned table before position 0 (OPT: 2)."),
    "rope_dim": _size("rope_dim", "Features of a head that RoPE turns; by default all."),
    "rope_base": _model(float, "--rope-base", metavar="X", help="Base of RoPE's angles.", panel=FEATURE_PANEL),
    "n_buckets": _size("n_buckets", "Rows of the relative bias (T5: 32)."),
    "max_distance": _size("max_distance", "Distance of the last bucket of the relative bias (T5: 128)."),
    "embed_scale": _switch("embed_scale", "Token vectors times the root of d."),
    "embed_norm": _switch("embed_norm", "A norm after the embedding sum."),
    "n_token_types": _size("n_token_types", "Rows of the token-type table (BERT: 2)."),
    "scale_scores": _switch("scale_scores", "Scores divided by the root of d_head."),
    "window": _size("window", "Keys that a position sees, itself included; 0 for all."),
    "global_every": _size("global_every", "Each block of this number sees all keys in spite of --window."),
    "n_experts": _size("n_experts", "Expert MLPs of a block; 0 for a plain MLP."),
    "n_experts_per_token": _size("n_experts_per_token", "Experts that each token goes through."),
    "n_shared_experts": _size("n_shared_experts", "Experts that every token goes through besides."),
    "d_expert": _size("d_expert", "Width of an expert's hidden layer; by default --d-ff."),
    "n_dense_layers": _size("n_dense_layers", "First blocks that keep a plain MLP."),
    "head_kind": _choice("head", "Logits of a language model, BERT's masked one, or none.", FEATURE_PANEL),
    "head_bias": _switch("head_bias", "A bias on the logits."),
    "pooler": _switch("pooler", "BERT's pooler on the first position."),
    "qkv_bias": _switch("qkv_bias", "Bias vectors of Q, K and V; by default as --bias."),
    "out_bias": _switch("out_bias", "Bias vector of the attention's output; by default as --bias."),
    "mlp_bias": _switch("mlp_bias", "Bias vectors of the MLP; by default as --bias."),
    "norm_bias": _switch("norm_bias", "Bias vectors of layer norms; by default as --bias."),
}

#: Fields whose flags have another keyword, because commands have a parameter of the field's name.
_FIELDS: Final = {"head_kind": "head"}


def model_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command with all model flags in the place of its parameter ``source``, which receives the resolved Source.

    A parameter ``model``, of type `Model`, names the model as an argument, and ``weights``, of type `Weights`, a
    checkpoint; both are resolved with the flags.

    Raises:  InputError, when the command is called, for an unknown preset or an invalid field.
    """
    own = dict(inspect.signature(command).parameters)
    if own.pop("source", None) is None:
        raise TypeError(f"{command.__name__} takes no source")
    resolved = {name: keyword for name, keyword in (("model", "target"), ("weights", "weights")) if name in own}
    # not typing.get_type_hints: Python 3.10 wraps whatever has the default None once more, and typer finds no option
    hints = inspect.get_annotations(command, locals={"Source": Any}, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword, annotation=hints[name]) for name, p in own.items()]
    parameters += [inspect.Parameter(n, keyword, default=None, annotation=flag) for n, flag in MODEL_FLAGS.items()]

    @functools.wraps(command)
    def with_source(**given: Any) -> None:
        from tfinspect.sources.resolve import resolve

        model = {_FIELDS.get(name, name): given.pop(name) for name in MODEL_FLAGS}
        model |= {keyword: given.pop(name) for name, keyword in resolved.items()}
        command(source=resolve(**model), **given)

    with_source.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_source.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_source
