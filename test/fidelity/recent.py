"""Detectors, segmenters, speech networks, embedders and recommenders, with random weights and small sizes: RECENT[name]() gives a module and an example of two rows."""

import torch
from torch import nn


class Named(nn.Module):
    """Some results of a network of transformers, by name."""

    def __init__(self, network, argument, outputs):
        super().__init__()
        self.network, self.argument, self.outputs = network, argument, outputs

    def forward(self, x):
        found = self.network(**{self.argument: x})
        return tuple(getattr(found, name) for name in self.outputs)


def made(kind, outputs, example, argument="pixel_values", config=None, **fields):
    """A network of transformers. `kind` names its class, `config` its configuration."""
    import transformers

    config = getattr(transformers, config or kind.split("For")[0].removesuffix("Model") + "Config")(**fields)
    return Named(getattr(transformers, kind)(config), argument, outputs.split()), (example,)


def pictures(size=64):
    return torch.randn(2, 3, size, size)


def backbone():
    from transformers import ResNetConfig

    return ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage2", "stage3", "stage4"])


def hybrid(**more):
    """Fields of detectors in the shape of RT-DETR."""
    sizes = {"encoder_in_channels": [16, 24, 32], "encoder_hidden_dim": 32, "d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "decoder_in_channels": [32, 32, 32]}
    return {"backbone_config": backbone(), "num_queries": 20, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_labels": 7, **sizes, **more}


def detr(**more):
    sizes = {"d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": backbone(), "num_queries": 10, "num_labels": 7, **sizes, **more}


SMALL_VIT = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64, "image_size": 64, "patch_size": 8}
SMALL_TOWER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def depth_anything():
    from transformers import Dinov2Config

    vit = Dinov2Config(**{**SMALL_VIT, "patch_size": 14, "image_size": 70}, out_indices=[1, 2, 3, 4], reshape_hidden_states=False)
    return made("DepthAnythingForDepthEstimation", "predicted_depth", pictures(70), backbone_config=vit, patch_size=14, reassemble_hidden_size=32, neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, head_hidden_size=8)


def dense(*sizes):
    return nn.Sequential(*[layer for i, o in zip(sizes, sizes[1:]) for layer in (nn.Linear(i, o), nn.ReLU())][:-1])


class Dlrm(nn.Module):
    """Ranks items by products of embeddings, as Naumov and others describe in 2019."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(100, 16, mode="sum") for _ in range(4))
        self.bottom, self.top = dense(13, 32, 16), dense(16 + 10, 32, 1)

    def forward(self, numbers, ids):
        first = self.bottom(numbers)
        each = torch.stack([first, *[table(ids[:, i]) for i, table in enumerate(self.tables)]], 1)
        products = each @ each.transpose(1, 2)
        pairs = torch.tril_indices(5, 5, -1)
        return self.top(torch.cat([first, products[:, pairs[0], pairs[1]]], 1)).sigmoid()


class SasRec(nn.Module):
    """The next items for a history, as Kang and McAuley describe in 2018: the best ten of all items."""

    def __init__(self):
        super().__init__()
        self.items, self.places = nn.Embedding(500, 32, padding_idx=0), nn.Embedding(20, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, history):
        x = self.items(history) + self.places(torch.arange(history.shape[1]))
        causal = nn.Transformer.generate_square_subsequent_mask(history.shape[1])
        last = self.layers(x, mask=causal, is_causal=True)[:, -1]
        return tuple((last @ self.items.weight.T).topk(10))


class Squim(nn.Module):
    def __init__(self):
        super().__init__()
        from torchaudio.models import squim_objective_base

        self.network = squim_objective_base()

    def forward(self, x):
        return tuple(self.network(x))


class Classes(nn.Module):
    """The class of each pixel."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        found = self.network(x)
        return (found.logits if hasattr(found, "logits") else found["out"]).argmax(1)


def lraspp():
    import torchvision

    return Classes(torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None)), (pictures(),)


def segformer():
    named, example = made("SegformerForSemanticSegmentation", "logits", pictures(), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], decoder_hidden_size=32, num_labels=9)
    return Classes(named.network), example


def raft():
    import torchvision

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = torchvision.models.optical_flow.raft_small(weights=None)

        def forward(self, x):
            return self.network(x[:, :3], x[:, 3:], num_flow_updates=2)[-1]

    return Flow(), (torch.randn(2, 6, 128, 128),)


MASKS = {"feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32, "encoder_feedforward_dim": 32, "encoder_layers": 1, "num_attention_heads": 2, "dim_feedforward": 32, "decoder_layers": 2, "num_queries": 10, "num_labels": 7}

RECENT = {
    "detr": lambda: made("DetrForObjectDetection", "logits pred_boxes", pictures(), **detr()),
    "conditional_detr": lambda: made("ConditionalDetrForObjectDetection", "logits pred_boxes", pictures(), **detr()),
    "deformable_detr": lambda: made("DeformableDetrForObjectDetection", "logits pred_boxes", pictures(), **detr(num_feature_levels=3)),
    "rt_detr": lambda: made("RTDetrForObjectDetection", "logits pred_boxes", pictures(), **hybrid()),
    "rt_detr_v2": lambda: made("RTDetrV2ForObjectDetection", "logits pred_boxes", pictures(), **hybrid()),
    "d_fine": lambda: made("DFineForObjectDetection", "logits pred_boxes", pictures(), **hybrid()),
    "mask2former": lambda: made("Mask2FormerForUniversalSegmentation", "class_queries_logits masks_queries_logits", pictures(), config="Mask2FormerConfig", backbone_config=backbone_of_four(), **MASKS),
    "upernet": lambda: made("UperNetForSemanticSegmentation", "logits", pictures(), config="UperNetConfig", backbone_config=backbone_of_four(), hidden_size=16, use_auxiliary_head=False, num_labels=7, auxiliary_in_channels=24),
    "segformer_classes": segformer,
    "lraspp_classes": lraspp,
    "depth_anything": depth_anything,
    "raft_small": raft,
    "siglip": lambda: made("SiglipVisionModel", "pooler_output", pictures(), **SMALL_VIT),
    "clip": lambda: made("CLIPVisionModelWithProjection", "image_embeds", pictures(), config="CLIPVisionConfig", **SMALL_VIT, projection_dim=16),
    "dinov3_vit": lambda: made("DINOv3ViTModel", "pooler_output", pictures(), **SMALL_VIT),
    "dinov3_convnext": lambda: made("DINOv3ConvNextModel", "pooler_output", pictures(), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]),
    "nomic_bert": lambda: made("NomicBertModel", "last_hidden_state", torch.randint(3, 50, (2, 12)), "input_ids", **SMALL_TOWER, vocab_size=99),
    "eurobert": lambda: made("EuroBertModel", "last_hidden_state", torch.randint(3, 50, (2, 12)), "input_ids", **SMALL_TOWER, num_key_value_heads=2, vocab_size=99, pad_token_id=0),
    "lfm2": lambda: made("Lfm2Model", "last_hidden_state", torch.randint(3, 50, (2, 12)), "input_ids", **SMALL_TOWER, num_key_value_heads=2, vocab_size=99, use_cache=False),
    "whisper_encoder": lambda: whisper(),
    "wav2vec2-bert": lambda: made("Wav2Vec2BertModel", "last_hidden_state", torch.randn(2, 40, 16), "input_features", **SMALL_TOWER, feature_projection_input_dim=16, output_hidden_size=32),
    "parakeet_ctc": lambda: parakeet(),
    "patchtst": lambda: made("PatchTSTForPrediction", "prediction_outputs", torch.randn(2, 32, 3), "past_values", num_input_channels=3, context_length=32, prediction_length=8, d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=32),
    "squim": lambda: (Squim(), (torch.randn(2, 8000),)),
    "dlrm": lambda: (Dlrm(), (torch.randn(2, 13), torch.randint(0, 100, (2, 4, 5)))),
    "sasrec": lambda: (SasRec(), (torch.randint(1, 500, (2, 20)),)),
}


def backbone_of_four():
    config = backbone()
    config.out_features = ["stage1", "stage2", "stage3", "stage4"]
    return config


def whisper():
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(d_model=32, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=64, num_mel_bins=20, max_source_positions=50)
    return Named(WhisperEncoder(config), "input_features", ["last_hidden_state"]), (torch.randn(2, 20, 100),)


def parakeet():
    from transformers import ParakeetCTCConfig, ParakeetEncoderConfig

    encoder = ParakeetEncoderConfig(**SMALL_TOWER, num_mel_bins=16, subsampling_conv_channels=8)
    import transformers

    config = ParakeetCTCConfig(encoder_config=encoder, vocab_size=30)
    return Named(transformers.ParakeetForCTC(config), "input_features", ["logits"]), (torch.randn(2, 64, 16),)
