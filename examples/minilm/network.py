"""The network of all-MiniLM-L6-v2: token ids and their mask to one embedding, six BERT layers with mean pooling.

Written after "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding" (arXiv:1810.04805) and
"Sentence-BERT" (arXiv:1908.10084), in operations that TorchScript can compile for any batch size and length.
"""
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, normalize, scaled_dot_product_attention


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, epsilon: float):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.attended_norm = nn.LayerNorm(width, epsilon)
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)
        self.outer_norm = nn.LayerNorm(width, epsilon)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, tokens, width = x.shape
        heads = self.query_key_value(x).view(rows, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=mask)
        x = self.attended_norm(x + self.attended(y.transpose(1, 2).reshape(rows, tokens, width)))
        return self.outer_norm(x + self.outer(gelu(self.inner(x))))


class MiniLM(nn.Module):
    """`config` is the package's config.json, `weights` has the tensors of its model.safetensors."""

    def __init__(self, config: dict, weights: dict[str, Tensor]):
        super().__init__()
        width, epsilon = config["hidden_size"], config["layer_norm_eps"]
        self.words = nn.Embedding(config["vocab_size"], width)
        self.positions = nn.Embedding(config["max_position_embeddings"], width)
        self.norm = nn.LayerNorm(width, epsilon)
        self.layers = nn.ModuleList(
            Layer(width, config["num_attention_heads"], config["intermediate_size"], epsilon)
            for _ in range(config["num_hidden_layers"])
        )
        self.load_state_dict(renamed(weights, len(self.layers)))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Ids and mask [rows, tokens] to embeddings [rows, width] of length 1, which do not depend on the padding."""
        x = self.words(input_ids) + self.positions.weight[: input_ids.size(1)]
        x = self.norm(x)
        mask = attention_mask.ne(0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        weight = attention_mask.unsqueeze(2).to(x.dtype)
        mean = (x * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return normalize(mean, dim=1)


def renamed(weights: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The package's tensors under the names of this module."""
    state = {
        "words.weight": weights["embeddings.word_embeddings.weight"],
        # BERT adds an embedding of sentence 1 or 2 to each token. All tokens are in sentence 1, so the positions have it.
        "positions.weight": weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0],
    }
    places = {"norm": "embeddings.LayerNorm"}
    for i in range(layers):
        for here, there in (
            ("attended", "attention.output.dense"),
            ("attended_norm", "attention.output.LayerNorm"),
            ("inner", "intermediate.dense"),
            ("outer", "output.dense"),
            ("outer_norm", "output.LayerNorm"),
        ):
            places[f"layers.{i}.{here}"] = f"encoder.layer.{i}.{there}"
    for kind in ("weight", "bias"):
        for here, there in places.items():
            state[f"{here}.{kind}"] = weights[f"{there}.{kind}"]
        for i in range(layers):
            parts = [weights[f"encoder.layer.{i}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            state[f"layers.{i}.query_key_value.{kind}"] = torch.cat(parts)
    return state
