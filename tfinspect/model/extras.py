"""Parts that some models have beside GPT-2's: experts, BERT's masked head, T5's relative bias."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tfinspect.model.layers import ACTIVATIONS, Linear, mlp, norm
from tfinspect.model.positions import relative_buckets
from tfinspect.model.tap import SILENT, Tap
from tfinspect.spec import GATES, ModelSpec

__all__ = ["Experts", "MaskedHead", "RelativeBias"]


class Experts(nn.Module):
    """Step 6 as a mixture: a router sends each position through k of E MLPs, and all through the shared one.

    The gates are the softmax of the k chosen logits: the softmax over all E, with the chosen made to sum to 1.

    Source:  Shazeer et al. 2017, section 2.1; Jiang et al. 2024, section 2.1; shared experts: Dai et al. 2024, 3.2.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.router = Linear(spec.d_model, spec.n_experts, bias=False)
        self.experts = nn.ModuleList(mlp(spec, spec.d_expert) for _ in range(spec.n_experts))
        n_shared = spec.n_shared_experts
        self.shared = mlp(spec, n_shared * spec.d_expert) if n_shared else None
        self.n_per_token = spec.n_experts_per_token

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        logits = tap("router", self.router(x), "B T E")
        chosen_logits, chosen = logits.topk(self.n_per_token, dim=-1)  # [B, T, k]
        gates = tap("gates", chosen_logits.softmax(dim=-1), "B T k")
        outputs = tap("experts", self.through(x, chosen), "B T k d_model")
        out = (gates.unsqueeze(-1) * outputs).sum(dim=2)
        if self.shared is not None:
            out = out + tap("shared", self.shared(x, SILENT), "B T d_model")
        return tap("out", out, "B T d_model")

    def through(self, x: Tensor, chosen: Tensor) -> Tensor:
        """Each position through each expert that it has chosen, [B, T, d_model] to [B, T, k, d_model].

        Rows are sorted by expert, so that each expert reads its own in one product.
        """
        order = chosen.flatten().argsort(stable=True)
        rows = x.unsqueeze(2).expand(*chosen.shape, -1).flatten(0, 2)[order]  # [B·T·k, d_model]
        shares = rows.split(rows_of_each(chosen, len(self.experts)))
        outputs = torch.cat([expert(share, SILENT) for expert, share in zip(self.experts, shares, strict=False)])
        return outputs[order.argsort()].unflatten(0, chosen.shape)


def rows_of_each(chosen: Tensor, n_experts: int) -> list[int]:
    """How many rows each expert gets. Ids without values, on the meta device, all go to the first: the work of the
    mixture is the same for every split, and a hundred experts of each block need not run."""
    if chosen.is_meta:
        return [chosen.numel()]
    return torch.bincount(chosen.flatten(), minlength=n_experts).tolist()


class MaskedHead(nn.Module):
    """What stands before the head of a masked language model: a d×d layer, the activation, a norm.

    Source:  Devlin et al. 2019, released code (google-research/bert, run_pretraining.py, get_masked_lm_output).
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dense = Linear(spec.d_model, spec.d_model, bias=True)
        self.activation = ACTIVATIONS[GATES.get(spec.activation, spec.activation)]
        self.norm = norm(spec)

    def forward(self, x: Tensor, tap: Tap, dims: str) -> Tensor:
        x = tap("dense", self.dense(x), dims)
        return tap("norm", self.norm(tap("activated", self.activation(x), dims)), dims)


class RelativeBias(nn.Module):
    """A learned number for each head and each bucket of distances, added to the scores of every block.

    Source:  Raffel et al. 2020, section 2.1.
    """

    def __init__(self, spec: ModelSpec, *, causal: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.n_buckets, spec.n_heads))
        self.max_distance, self.causal = spec.max_distance, causal

    def forward(self, n_queries: int, n_past: int) -> Tensor:
        """[h, T, S] for the last T = n_queries of S = n_past + T positions."""
        n_buckets, n_keys, device = self.weight.shape[0], n_past + n_queries, self.weight.device
        buckets = relative_buckets(n_queries, n_keys, n_buckets, self.max_distance, self.causal, device)
        return nn.functional.embedding(buckets, self.weight).permute(2, 0, 1)
