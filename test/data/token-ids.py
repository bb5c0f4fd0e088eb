"""Tokenizers of three kinds, 2,000 strings, and the ids that Python's tokenizers gives for each string.

    python3 token-ids.py > token-ids.json     # with tokenizers 0.23.3
"""

import base64
import json
import random
import zlib

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

random.seed(58)
# First and last character of scripts, symbols, combining marks, and controls.
ranges = [
    (0x20, 0x7E), (0xA0, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF),
    (0x531, 0x586), (0x591, 0x5F4), (0x600, 0x6FF), (0x700, 0x74F), (0x780, 0x7B1), (0x900, 0x97F), (0x980, 0x9FE),
    (0xA01, 0xA76), (0xB82, 0xBFA), (0xC00, 0xC7F), (0xD00, 0xD7F), (0xE01, 0xE5B), (0xE81, 0xEDF), (0xF00, 0xFDA),
    (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x1399), (0x13A0, 0x13FD), (0x1780, 0x17F9),
    (0x1820, 0x1878), (0x1E00, 0x1EFF), (0x1F00, 0x1FFE), (0x2000, 0x206F), (0x2070, 0x209C), (0x20A0, 0x20C0),
    (0x20D0, 0x20F0), (0x2100, 0x218B), (0x2190, 0x22FF), (0x2460, 0x24FF), (0x2500, 0x27BF), (0x3000, 0x30FF),
    (0x3105, 0x312F), (0x3130, 0x318E), (0x3200, 0x33FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAD9),
    (0xFB00, 0xFB4F), (0xFE00, 0xFE0F), (0xFE20, 0xFE2F), (0xFF01, 0xFFEE), (0x10330, 0x1034A), (0x10400, 0x1044F),
    (0x1D400, 0x1D7FF), (0x1F1E6, 0x1F1FF), (0x1F300, 0x1F6FF), (0x1F900, 0x1F9FF), (0x20000, 0x2A6DF), (0x0, 0x1F),
    (0x7F, 0x9F),
]  # fmt: skip
words = (
    "the of and a model serves tensors don't we'll I'M 3.14 1,000 hello world naïve café Straße ΣΊΣΥΦΟΣ ΟΔΟΣ İstanbul "
    "ĳssel ﬁne ½ 한국어 日本語 中文 العربية עברית हिन्दी ไทย русский ελληνικά 👩‍👩‍👧‍👦 👍🏽 🇩🇪 é e\u0301 ﷺ ™ [CLS] [SEP] <s> ▁ \t \n \r\n \u00a0 \u200b"
).split(" ")


def text():
    kind = random.random()
    if kind < 0.5:
        first, last = random.choice(ranges)
        return "".join(chr(random.randint(first, last)) for _ in range(random.randint(1, 12)))
    if kind < 0.8:
        return random.choice(["", " ", "  "]).join(random.choice(words) for _ in range(random.randint(1, 8)))
    return " ".join(chr(random.randint(*random.choice(ranges))) * random.randint(1, 3) for _ in range(random.randint(1, 8)))


long = " ".join(random.choice(words) for _ in range(20_000))[:100_000]
strings = ["", " ", "  a  ", "\n", "A" * 300, long] + [text() for _ in range(1994)]
corpus = [text() for _ in range(4000)] + words * 20
# A Unigram model needs each character of its corpus in its vocabulary.
common = [" ".join(random.choices(words, k=8)) for _ in range(2000)]

bert = Tokenizer(models.WordPiece(unk_token="[UNK]"))
bert.normalizer = normalizers.BertNormalizer(lowercase=True)
bert.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
bert.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=2000, limit_alphabet=900, special_tokens=special, show_progress=False))
bert.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair=None, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
bert.decoder = decoders.WordPiece()

gpt2 = Tokenizer(models.BPE())
gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
alphabet = pre_tokenizers.ByteLevel.alphabet()
gpt2.train_from_iterator(
    corpus,
    trainers.BpeTrainer(vocab_size=1000, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False),
)
gpt2.decoder = decoders.ByteLevel()

sentencepiece = Tokenizer(models.Unigram())
sentencepiece.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
sentencepiece.pre_tokenizer = pre_tokenizers.Metaspace()
sentencepiece.train_from_iterator(
    common,
    trainers.UnigramTrainer(vocab_size=800, special_tokens=["<s>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False),
)
sentencepiece.decoder = decoders.Metaspace()

kinds = {"BERT": bert, "GPT-2": gpt2, "SentencePiece": sentencepiece}
result = {
    "strings": strings,
    "kinds": {
        name: {"tokenizer": json.loads(each.to_str()), "ids": [each.encode(text).ids for text in strings]}
        for name, each in kinds.items()
    },
}
print(json.dumps(base64.b64encode(zlib.compress(json.dumps(result).encode(), 9)).decode()))
