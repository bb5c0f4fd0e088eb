"""The network of the writer example: a small decoder in the shape of GPT-2, whose tokens are ASCII characters."""
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TOKENS = 128
CONTEXT = 256
LAYERS = 4
WIDTH = 96


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.before_hidden = nn.LayerNorm(WIDTH)
        self.hidden = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrowed = nn.Linear(4 * WIDTH, WIDTH)

    def queries_keys_values(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """[..., WIDTH] to three of [..., WIDTH]."""
        q, k, v = self.attention(self.before_attention(x)).chunk(3, dim=-1)
        return q, k, v

    def rest(self, x: Tensor, attended: Tensor) -> Tensor:
        """The layer's output, for its input and the attended values."""
        x = x + self.mixed(attended)
        return x + self.narrowed(F.gelu(self.hidden(self.before_hidden(x))))


def heads(x: Tensor) -> Tensor:
    """[..., T, WIDTH] to [..., 4, T, WIDTH / 4]."""
    return x.unflatten(-1, [4, -1]).transpose(-3, -2)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor] = None) -> Tensor:
    """Attention over [..., T, WIDTH], in heads: to the tokens of the mask, or without a mask to earlier tokens."""
    attended = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), mask, is_causal=mask is None)
    return attended.transpose(-3, -2).flatten(-2)


class Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = nn.LayerNorm(WIDTH)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token at each position: [N, T] to [N, T, TOKENS]. For training."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1), device=tokens.device))
        for layer in self.layers:
            q, k, v = layer.queries_keys_values(x)
            x = layer.rest(x, attend(q, k, v))
        return self.scores(x)

    def scores(self, x: Tensor) -> Tensor:
        return F.linear(self.last(x), self.tokens.weight)

    @torch.jit.export
    def begin(self, tokens: Tensor) -> Tuple[Tensor, Tensor]:
        """The scores after a prompt [T], and its cache: keys and values of each layer, [LAYERS, 2, T, WIDTH]."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(0), device=tokens.device))
        cache: List[Tensor] = []
        for layer in self.layers:
            q, k, v = layer.queries_keys_values(x)
            cache.append(torch.stack([k, v]))
            x = layer.rest(x, attend(q, k, v))
        return self.scores(x[-1]), torch.stack(cache)

    @torch.jit.export
    def step(self, tokens: Tensor, caches: List[Tensor]) -> Tuple[Tensor, List[Tensor]]:
        """Reads one more token of each text [N]. Returns scores [N, TOKENS] and the longer caches, which may differ in length."""
        ends = [cache.size(2) for cache in caches]
        rows = torch.arange(len(ends), device=tokens.device)
        at = torch.tensor(ends, device=tokens.device)
        stacked = caches[0].new_zeros(len(ends), caches[0].size(0), 2, max(ends) + 1, caches[0].size(3))
        for i, cache in enumerate(caches):
            stacked[i, :, :, : ends[i]] = cache
        is_text = (torch.arange(stacked.size(3), device=tokens.device) <= at[:, None])[:, None, None]
        x = self.tokens(tokens) + self.positions(at)
        for i, layer in enumerate(self.layers):
            q, k, v = layer.queries_keys_values(x)
            stacked[rows, i, 0, at] = k
            stacked[rows, i, 1, at] = v
            attended = attend(q[:, None], stacked[:, i, 0], stacked[:, i, 1], is_text)
            x = layer.rest(x, attended[:, 0])
        return self.scores(x), [stacked[i, :, :, : end + 1] for i, end in enumerate(ends)]
