"""How many parameters and multiplications: the sources' formulas and figures, against the torch model, counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from torch import nn

from tfinspect.closed_form import growth as work_formulas
from tfinspect.closed_form import params as param_formulas
from tfinspect.closed_form.formula import letters, ratio, value
from tfinspect.measured import flops as measured_work
from tfinspect.model.build import decoder
from tfinspect.model.transformer import MLP, Attention, LayerNorm, Transformer
from tfinspect.presets import PRESETS
from tfinspect.results.checks import Figure, Findings, Matrix
from tfinspect.results.growth import exact
from tfinspect.spec import ModelSpec
from tfinspect.verify.propositions import Settings

__all__ = ["by_component", "doubling", "exercise", "formula", "gpt2_small", "published", "work", "worked_example"]

Build: TypeAlias = Callable[[ModelSpec], Transformer]
Count: TypeAlias = Callable[..., measured_work.Measurement]
"""`measured.flops.count`, or what stands in its place."""
Check: TypeAlias = Callable[..., Findings]

#: Theorem 5.1: learned positions, tied head, biases, Pre-LN with a final norm.
THEOREM: Final = "V·d + n_ctx·d + L·(4d² + 4d + 2·d·d_ff + d_ff + d + 4d) + 2d"

#: What the theorem says of the other models: the variant, its fields, and the formula.
VARIANTS: Final[tuple[tuple[str, Mapping[str, object], str], ...]] = (
    ("learned, tied", {}, THEOREM),
    ("RoPE", {"positions": "rope"}, f"{THEOREM} − n_ctx·d"),
    ("sinusoidal", {"positions": "sinusoidal"}, f"{THEOREM} − n_ctx·d"),
    ("untied head", {"tied_head": False}, f"{THEOREM} + V·d"),
)


def on_meta(spec: ModelSpec) -> Transformer:
    """The torch model of a spec, without memory."""
    return decoder(spec, device="meta")


def formula(settings: Settings, model: Build = on_meta) -> Findings:
    """A5.1: the theorem's formula against the parameters of built models, each of which has sizes of its own."""
    source = random.Random(settings.seed)
    figures, rows = [], []
    for variant, fields, text in VARIANTS:
        differ = 0
        for _ in range(settings.trials):
            spec = _sized(source).replace(**fields)
            counted, claimed = n_params(model(spec)), value(text, letters(spec))
            differ += counted != claimed
        figures.append(Figure(f"{variant}: of {settings.trials} specs, differ", differ, 0))
        rows.append((counted, claimed, sum(term.params for term in param_formulas.ledger(spec)), spec.summary()))
    d_ff_is_4d = _sized(source)
    d_ff_is_4d = d_ff_is_4d.replace(d_ff=4 * d_ff_is_4d.d_model)
    figures.append(
        Figure(
            f"block of d = {d_ff_is_4d.d_model}, d_ff = 4d",
            n_params(model(d_ff_is_4d).get_submodule("blocks.0")),
            value("12d² + 13d", letters(d_ff_is_4d)),
        )
    )
    columns = ("counted", "theorem", "ledger", "last spec drawn")
    return Findings(
        tuple(figures), (Matrix("One spec of each kind", tuple(rows), tuple(v for v, _, _ in VARIANTS), columns),)
    )


def worked_example(settings: Settings, spec: ModelSpec = PRESETS["tiny-568"].spec, model: Build = on_meta) -> Findings:
    """A5.2: the model of 568 parameters, part by part."""
    claimed = {
        "token table": 40,
        "position table": 32,
        "attention of a block": 80,
        "MLP of a block": 148,
        "norms of a block": 16,
        "block": 244,
        "final norm": 8,
        "model": 568,
    }
    return _parts(spec, model, claimed)


def gpt2_small(settings: Settings, spec: ModelSpec = PRESETS["gpt2"].spec, model: Build = on_meta) -> Findings:
    """A5.3: the smallest model of Radford et al., part by part."""
    claimed = {
        "token table": 38_597_376,
        "position table": 786_432,
        "block": 7_087_872,
        "all blocks": 85_054_464,
        "final norm": 1_536,
        "model": 124_439_808,
    }
    return _parts(spec, model, claimed)


def published(settings: Settings, spec: ModelSpec = PRESETS["gpt2"].spec, model: Build = on_meta) -> Findings:
    """A5.4: table 2 says 117M; the count is another, and so is every other count that goes by a model's size."""
    total = n_params(model(spec))
    others = {c.label: c.params for c in param_formulas.other_counts(spec)}
    others["with an untied head"] = n_params(model(spec.replace(tied_head=False)))
    figures = [
        Figure("parameters", total, 124_439_808),
        Figure("in millions", round(total / 1e6, 3), 117.0, tolerance=0.5, differs=True),
        Figure(
            "other counts that round to 117 million",
            sum(abs(count / 1e6 - 117) <= 0.5 for count in others.values()),
            0,
        ),
    ]
    rows = tuple((count, round(count / 1e6, 2)) for count in others.values())
    notes = (
        "Table 2 of Radford et al. (2019) says 117M for this configuration. A note in OpenAI's repository says that "
        "the original counts were wrong. Neither says how 117M arose.",
    )
    return Findings(tuple(figures), (Matrix("Other counts", rows, tuple(others), ("params", "millions")),), notes)


def by_component(settings: Settings, spec: ModelSpec = PRESETS["gpt2"].spec, model: Build = on_meta) -> Findings:
    """B15.7: GPT-2 Small by component, with shares of the whole."""
    built = model(spec)
    total = n_params(built)
    parts = {
        "tokens": n_params(built.embed.tokens),
        "positions": n_params(built.get_submodule("embed.positions")) if spec.positions == "learned" else 0,
        "attention": _of(built, Attention),
        "MLP": _of(built, MLP),
        "layer norms": _of(built, LayerNorm),
        "output head": 0
        if built.get_parameter("head.weight") is built.embed.tokens.weight
        else n_params(built.get_submodule("head")),
    }
    claimed = {"tokens": 31.0, "positions": 0.6, "attention": 22.8, "MLP": 45.5}
    share = {name: 100 * count / total for name, count in parts.items()}
    figures = [Figure(f"{name}, %", share[name], percent, tolerance=0.05) for name, percent in claimed.items()]
    tiny = share["layer norms"]
    figures += [
        Figure("layer norms", sum(isinstance(m, LayerNorm) for m in built.modules()), 25),
        Figure("their share", "below 0.1 %" if tiny < 0.1 else f"{tiny:.1f} %", "below 0.1 %"),
        Figure("output head", parts["output head"], 0),
        Figure("sum of the parts less the model", sum(parts.values()) - total, 0, detail=True),
        Figure("millions", total / 1e6, 124.4, tolerance=0.05),
    ]
    rows = tuple((count, round(share[name], 2)) for name, count in parts.items())
    return Findings(tuple(figures), (Matrix("Components", rows, tuple(parts), ("params", "%")),))


def exercise(settings: Settings, spec: ModelSpec = PRESETS["tiny-272256"].spec, model: Build = on_meta) -> Findings:
    """A11.1: the exercise's model, part by part, and the token table's share."""
    claimed = {
        "token table": 64_000,
        "position table": 8_192,
        "block": 49_984,
        "final norm": 128,
        "model": 272_256,
    }
    found = _parts(spec, model, claimed)
    built = model(spec)
    share = 100 * n_params(built.embed.tokens) / n_params(built)
    return Findings((*found.figures, Figure("token table, %", share, 23.5, tolerance=0.05)), found.matrices)


def work(
    settings: Settings,
    spec: ModelSpec = PRESETS["gpt2"].spec,
    count: Count = measured_work.count,
) -> Findings:
    """A6.1: multiplications of one block at d = 768, n = 1,024, and where its two parts are equal."""
    n, d = 1_024, spec.d_model
    whole, block = count(spec, seq_len=n), spec.replace(n_layers=1)
    grown = work_formulas.growth(spec, seq_len=n)
    linear, quadratic = _linear_and_quadratic(count(block, seq_len=n))
    at, below = (_linear_and_quadratic(count(block, seq_len=length)) for length in (6 * d, 6 * d - 1))
    evaluations = count(block, seq_len=n, attention="eager").evaluations
    bound = letters(spec, seq_len=n)
    figures = (
        Figure("linear part at n = 1,024", linear, 7_247_757_312),
        Figure("quadratic part", quadratic, 1_610_612_736),
        Figure("closed form of both", value(grown.block_formula, bound), linear + quadratic, detail=True),
        Figure("quadratic over linear", quadratic / linear, 0.222, tolerance=5e-4),
        Figure("the same less n/(6d)", float(Fraction(quadratic, linear) - Fraction(n, 6 * d)), 0.0, detail=True),
        Figure("n where both are equal", exact(grown.crossover or 0), 4_608),
        Figure("quadratic less linear there", at[1] - at[0], 0),
        Figure("larger one position before", "linear" if below[0] > below[1] else "quadratic", "linear", detail=True),
        Figure("model", whole.flops // 2, value(f"L·({grown.block_formula}) + n·d·V", bound), detail=True),
        Figure("activations of a block", evaluations["activation"], value("n·d_ff", bound), detail=True),
        Figure("softmax of a block", evaluations["softmax"], value("h·n²", bound), detail=True),
    )
    lengths = (256, 1_024, 6 * d, 16_384)
    swept = [_linear_and_quadratic(count(block, seq_len=length)) for length in lengths]
    rows = tuple((x, y, round(y / x, 4)) for x, y in swept)
    matrix = Matrix(
        "Multiplications of one block", rows, tuple(f"n = {n:,}" for n in lengths), ("linear", "n²", "ratio")
    )
    return Findings(figures, (matrix,))


def doubling(
    settings: Settings,
    spec: ModelSpec = PRESETS["tiny-272256"].spec,
    count: Count = measured_work.count,
) -> Findings:
    """A11.4: what doubling n costs a block with d_ff = 4d, counted at n and at 2n."""
    block, d = spec.replace(n_layers=1), spec.d_model
    figures, rows = [], []
    for times, claimed in ((1, Fraction(16, 7)), (6, Fraction(3)), (60, Fraction(252, 66))):
        n = times * d
        once, twice = (sum(_linear_and_quadratic(count(block, seq_len=length))) for length in (n, 2 * n))
        by_formula = ratio("(12d + 4n)/(6d + n)", letters(block, seq_len=n))
        name = "n = d" if times == 1 else f"n = {times}d"
        figures.append(Figure(f"{name}: T(2n)/T(n)", twice / once, float(claimed)))
        figures.append(Figure("less (12d + 4n)/(6d + n)", float(Fraction(twice, once) - by_formula), 0.0, detail=True))
        rows.append((n, once, twice, str(by_formula)))
    labels = ("n = d", "n = 6d", "n = 60d")
    return Findings(
        tuple(figures), (Matrix(f"One block, d = {d}", tuple(rows), labels, ("n", "T(n)", "T(2n)", "ratio")),)
    )


def n_params(module: nn.Module) -> int:
    """Elements of a module's parameters, a shared one once."""
    return sum(p.numel() for p in module.parameters())


def _of(module: nn.Module, kind: type[nn.Module]) -> int:
    """Parameters of all parts of one kind."""
    return sum(n_params(part) for part in module.modules() if isinstance(part, kind))


def _parts(spec: ModelSpec, model: Build, claimed: Mapping[str, int]) -> Findings:
    """Parameters of the parts of a built model, each against what is claimed, and the ledger's sum beside them."""
    built = model(spec)
    block = built.get_submodule("blocks.0")
    counted = {
        "token table": n_params(built.embed.tokens),
        "position table": n_params(built.get_submodule("embed.positions")) if spec.positions == "learned" else 0,
        "attention of a block": _of(block, Attention),
        "MLP of a block": _of(block, MLP),
        "norms of a block": _of(block, LayerNorm),
        "block": n_params(block),
        "all blocks": n_params(built.blocks),
        "final norm": n_params(built.final_norm) if built.final_norm is not None else 0,
        "model": n_params(built),
    }
    figures = [Figure(name, counted[name], count) for name, count in claimed.items()]
    ledger = param_formulas.ledger(spec)
    figures.append(Figure("closed form", sum(term.params for term in ledger), claimed["model"], detail=True))
    rows = tuple((term.formula, term.each, term.copies, term.params) for term in ledger)
    columns = ("formula", "each", "copies", "params")
    return Findings(tuple(figures), (Matrix("Ledger", rows, tuple(term.title for term in ledger), columns),))


def _linear_and_quadratic(measured: measured_work.Measurement) -> tuple[int, int]:
    """Multiplications that grow with n and with n²."""
    parts = measured.by_component
    return (parts["projections"] + parts["mlp"]) // 2, (parts["scores"] + parts["mix"]) // 2


def _sized(source: random.Random) -> ModelSpec:
    """A small spec of the theorem's kind, with sizes drawn; the head width is even, as RoPE needs it."""
    n_heads = source.choice((1, 2, 3))
    return ModelSpec(
        vocab_size=source.randint(5, 60),
        n_ctx=source.randint(5, 60),
        d_model=n_heads * source.choice((2, 4, 6, 8)),
        n_layers=source.randint(1, 4),
        n_heads=n_heads,
        d_ff=source.randint(3, 70),
    )
