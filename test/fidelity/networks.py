"""Networks of common libraries, with random weights and small inputs: network(name) gives a module and an example of two rows."""

import torch
from torch import nn

from recent import RECENT

TORCHVISION = """alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t mnasnet0_5 mnasnet1_0 mobilenet_v2
mobilenet_v3_large mobilenet_v3_small regnet_x_400mf regnet_y_400mf resnet18 resnet34 resnet50 resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0
squeezenet1_0 squeezenet1_1 swin_t swin_v2_t vgg11 vgg11_bn vit_b_32 wide_resnet50_2
segmentation.lraspp_mobilenet_v3_large segmentation.deeplabv3_mobilenet_v3_large segmentation.fcn_resnet50
video.r2plus1d_18 video.mc3_18""".split()

TIMM = """bat_resnext26ts beit_base_patch16_224 botnet26t_256 caformer_s18 cait_xxs24_224 coat_lite_tiny coatnet_pico_rw_224 convformer_s18 convit_tiny
convmixer_768_32 convnext_atto convnextv2_atto crossvit_tiny_240 cs3darknet_s cspresnet50 cspdarknet53 davit_tiny deit_tiny_patch16_224 densenet121 dla34 dla46_c dm_nfnet_f0
dpn48b eca_nfnet_l0 edgenext_xx_small efficientformer_l1 efficientformerv2_s0 efficientnet_b0 efficientnet_lite0 efficientvit_b0 efficientvit_m0 ese_vovnet19b_dw
eva02_tiny_patch14_224 fastvit_t8 fbnetc_100 fbnetv3_b focalnet_tiny_srf gcresnet33ts gcvit_xxtiny gernet_s gmixer_12_224 gmlp_ti16_224 ghostnet_050 ghostnetv2_100 halonet26t hardcorenas_a
haloregnetz_b hgnet_tiny hgnetv2_b0 hiera_tiny_224 hrnet_w18_small inception_next_atto inception_resnet_v2 lambda_resnet26t lcnet_035 legacy_seresnet18 levit_128s mambaout_femto maxvit_pico_rw_256 mixer_s32_224
mixnet_s mnasnet_small mobilenetv1_100 mobilenetv2_035 mobilenetv3_small_050 mobilenetv4_conv_small mobilenet_edgetpu_v2_xs mobileone_s0 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny
nf_resnet26 nextvit_small pit_ti_224 poolformer_s12 pvt_v2_b0 rdnet_tiny regnetx_002 regnety_002 regnetv_040 regnetz_005 repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_14w_8s resmlp_12_224
resnest14d resnet10t resnet18 resnet26d resnetaa50 resnetv2_18 resnext26ts rexnetr_100 rexnet_100 sebotnet33ts_256 sedpn48b selecsls42 seresnet18 sequencer2d_s shvit_s1 skresnet18 starnet_s1 swiftformer_xs swin_tiny_patch4_window7_224 swinv2_cr_tiny_224
tf_efficientnet_b0 tf_mobilenetv3_small_075 tiny_vit_5m_224 tinynet_e tnt_s_legacy_patch16_224 tresnet_m twins_svt_small vgg11 visformer_tiny vit_tiny_patch16_224 vit_small_r26_s32_224 volo_d1_224 vovnet39a wide_resnet50_2
xception41 xcit_nano_12_p16_224 vitamin_small_224 vit_relpos_small_patch16_224 samvit_base_patch16 test_vit test_resnet test_efficientnet test_convnext test_byobnet test_nfnet""".split()

TRANSFORMERS = """albert bert bert-generation big_bird bloom camembert codegen convbert cohere ctrl data2vec-text deberta deberta-v2 distilbert electra ernie esm falcon flaubert fnet gemma gemma2 gemma3_text
glm gpt2 gpt_bigcode gpt_neo gpt_neox gptj granite ibert layoutlm llama mamba megatron-bert mistral mobilebert modernbert mpnet mpt mra nezha nystromformer olmo olmo2 openai-gpt opt persimmon phi phi3 qwen2 qwen3
rembert roberta roberta-prelayernorm roc_bert roformer smollm3 splinter squeezebert stablelm starcoder2 xglm xlm xlm-roberta xlnet xmod yoso""".split()

TRANSFORMERS_VISION = """beit bit convnext convnextv2 cvt data2vec-vision deit dinov2 dinov2_with_registers dpt efficientnet focalnet glpn hiera ijepa levit mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 poolformer
pvt pvt_v2 regnet resnet segformer swiftformer swin swinv2 textnet timm_wrapper vit vit_mae vit_msn vitdet vivit yolos""".split()

TRANSFORMERS_AUDIO = "audio-spectrogram-transformer data2vec-audio hubert sew sew-d unispeech unispeech-sat wav2vec2 wav2vec2-conformer wavlm".split()

TORCHAUDIO = "conformer conv_tasnet deepspeech wav2letter wav2vec2 hubert wavlm".split()

NAMES = [
    *[f"torchvision/{name}" for name in TORCHVISION],
    *[f"timm/{name}" for name in TIMM],
    *[f"transformers/{name}" for name in TRANSFORMERS + TRANSFORMERS_VISION + TRANSFORMERS_AUDIO],
    *[f"torchaudio/{name}" for name in TORCHAUDIO],
    *[f"recent/{name}" for name in RECENT],
]

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64, "vocab_size": 99,
    "max_position_embeddings": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "d_model": 32, "n_positions": 64, "embedding_size": 32, "pad_token_id": 0,
    "dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 64, "ffn_dim": 64, "num_layers": 2, "num_heads": 4, "emb_dim": 32, "image_size": 64, "patch_size": 16,
    "image_seq_length": 16, "attention_type": "original_full", "word_embed_proj_dim": 32, "expand_ratio": 2, "attention_heads": 4, "rotary_dim": 4,
    "layer_types": None, "dff": 64, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}
# Networks that do not get the configuration SMALL, because its fields have other meanings in their configurations.
OWN_FIELDS = {"mobilebert", "squeezebert", "convbert", "mamba", *TRANSFORMERS_VISION} - {"beit", "vit", "deit", "dinov2", "dinov2_with_registers", "ijepa", "vit_mae", "vit_msn", "yolos", "data2vec-vision", "vitdet"}


class First(nn.Module):
    """The first results of a network, as a tuple of tensors."""

    def __init__(self, network, count=2):
        super().__init__()
        self.network = network
        self.count = count

    def forward(self, x):
        found = [leaf for leaf in torch.utils._pytree.tree_leaves(self.network(x)) if isinstance(leaf, torch.Tensor)]
        return tuple(found[: self.count])


class Text(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, ids, mask):
        return self.network(input_ids=ids, attention_mask=mask).last_hidden_state


def spread(network):
    """Batch norms with means and variances as training leaves them."""
    for module in network.modules():
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return network.eval()


def torchvision_network(name):
    # torchvision's compiled operators need another build of torch, so they are not loaded. `import torchvision`
    # needs the declaration of two of them; no network here calls these.
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    LIBRARIES.append(library)
    import torchvision

    more = {"weights_backbone": None} if name.startswith("segmentation") else {}
    if name in ("googlenet", "inception_v3"):
        more = {"init_weights": True, "aux_logits": True}
    module = torchvision.models.get_model(name.split(".")[-1], weights=None, **more)
    size = {"inception_v3": 96, "maxvit_t": 224, "vit_b_32": 224}.get(name, 64)
    if name.startswith("video"):
        return First(module), (torch.randn(2, 3, 4, 32, 32),)
    return First(module), (torch.randn(2, 3, size, size),)


LIBRARIES = []


def timm_network(name):
    torchvision_network("squeezenet1_1")
    import timm

    for size in (64, 96, None):
        try:
            more = {} if size is None else {"img_size": size}
            module = timm.create_model(name, pretrained=False, num_classes=10, **more).eval()
            break
        except (TypeError, AssertionError, RuntimeError, ValueError):
            pass
    if size is None:
        module = timm.create_model(name, pretrained=False, num_classes=10).eval()
        native = module.pretrained_cfg["input_size"][-1]
        sizes = (64, 96, native) if not module.pretrained_cfg.get("fixed_input_size") else (native,)
    else:
        sizes = (size,)
    for side in sizes:
        x = torch.randn(2, 3, side, side)
        try:
            with torch.no_grad():
                module(x)
            return First(module), (x,)
        except Exception:  # noqa: BLE001
            if side == sizes[-1]:
                raise


def transformers_network(name):
    torchvision_network("squeezenet1_1")
    from transformers import CONFIG_MAPPING, AutoModel

    fields = {} if name in OWN_FIELDS else SMALL
    config_class = CONFIG_MAPPING[name]
    default = config_class()
    taken = {key: value for key, value in fields.items() if hasattr(default, key)}
    if name in OWN_FIELDS:
        taken = {"image_size": 64} if hasattr(default, "image_size") and name not in ("levit", "hiera", "vivit") else {}
    if name in TRANSFORMERS_AUDIO:
        taken.pop("patch_size", None)
    for key in ("num_hidden_layers", "n_layer", "num_layers"):
        if name in ("mobilebert", "squeezebert", "convbert", "mamba") and hasattr(default, key):
            taken[key] = 2
    config = config_class(**taken)
    module = AutoModel.from_config(config, attn_implementation="eager") if name in TRANSFORMERS_VISION else AutoModel.from_config(config)
    if name in TRANSFORMERS_AUDIO:
        x = torch.randn(2, 64 if "spectrogram" in name else 4000, 128) if "spectrogram" in name else torch.randn(2, 4000)
        if "spectrogram" in name:
            x = torch.randn(2, config.max_length, config.num_mel_bins)
        return First(module, 1), (x,)
    if name in TRANSFORMERS_VISION:
        size = config.image_size if hasattr(config, "image_size") else 64
        size = size if isinstance(size, int) else size[0]
        x = torch.randn(2, config.num_frames, 3, size, size) if name == "vivit" else torch.randn(2, 3, size, size)
        return First(module, 1), (x,)
    ids = torch.randint(3, 50, (2, 12))
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 9:] = 0
    if name in ("fnet", "openai-gpt", "mamba"):
        return First(module, 1), (ids,)
    return Text(module), (ids, mask)


def torchaudio_network(name):
    import torchaudio.models as models

    small = {"extractor_mode": "group_norm", "extractor_conv_layer_config": [(32, 10, 5), (32, 3, 2)], "extractor_conv_bias": False, "encoder_embed_dim": 32,
             "encoder_projection_dropout": 0.0, "encoder_pos_conv_kernel": 16, "encoder_pos_conv_groups": 4, "encoder_num_layers": 2, "encoder_num_heads": 4,
             "encoder_attention_dropout": 0.0, "encoder_ff_interm_features": 64, "encoder_ff_interm_dropout": 0.0, "encoder_dropout": 0.0,
             "encoder_layer_norm_first": False, "encoder_layer_drop": 0.0, "aux_num_out": 10}
    if name == "conformer":
        class Lengths(nn.Module):
            def __init__(self):
                super().__init__()
                self.network = models.Conformer(input_dim=16, num_heads=4, ffn_dim=32, num_layers=2, depthwise_conv_kernel_size=7)

            def forward(self, x):
                return self.network(x, torch.full((x.size(0),), x.size(1), dtype=torch.int64))[0]

        return Lengths(), (torch.randn(2, 20, 16),)
    made = {
        "conv_tasnet": lambda: (models.ConvTasNet(num_sources=2, enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32, msk_num_layers=2, msk_num_stacks=2), torch.randn(2, 1, 800)),
        "deepspeech": lambda: (models.DeepSpeech(n_feature=16, n_hidden=32, n_class=10), torch.randn(2, 1, 12, 16)),
        "wav2letter": lambda: (models.Wav2Letter(num_classes=10, input_type="mfcc", num_features=13), torch.randn(2, 13, 200)),
        "wav2vec2": lambda: (models.wav2vec2_model(**small), torch.randn(2, 2000)),
        "hubert": lambda: (models.wav2vec2_model(**{**small, "extractor_mode": "layer_norm"}), torch.randn(2, 2000)),
        "wavlm": lambda: (models.wavlm_model(**small, encoder_num_buckets=32, encoder_max_distance=64), torch.randn(2, 2000)),
    }
    module, x = made[name]()
    return First(module, 1), (x,)


def recent_network(name):
    torchvision_network("squeezenet1_1")
    return RECENT[name]()


def network(name):
    library, _, short = name.partition("/")
    make = {"recent": recent_network, "torchvision": torchvision_network, "timm": timm_network, "transformers": transformers_network, "torchaudio": torchaudio_network}[library]
    module, example = make(short)
    return spread(module), example
