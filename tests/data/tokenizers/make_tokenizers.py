#!/usr/bin/env python3
"""Writes small tokenizers and what the tokenizers library makes of some texts.

    python3 make_tokenizers.py TOKENIZER_GOLDEN      (pip install tokenizers)

For each kind one NAME.json (a tokenizer.json of some hundred pieces, trained on the texts of
TOKENIZER_GOLDEN, one of the .jsonl files in ../tokenizer) and one NAME.ids.json: a list of
[text, ids] without BOS and EOS. Ids are those of the library, version 0.23.
"""

import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).parent
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
EXTRA = [
    "the <|end|> \n token", "<tool>call</tool>", "<|end|>x<|end|>", "a<tool>  b", "  two", " ",
    " zqzq zqzq",
    "don't DON'T 12345 1234567", "na\u00efve \u4e2d\u6587\u5f88\u597d \U0001F600\U0001F600",
]


def byte_level(texts, pieces, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(pieces)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def qwen2(texts):
    tokenizer = byte_level(texts, [pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                   pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def llama3(texts):
    tokenizer = byte_level(texts, [pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                   pre_tokenizers.ByteLevel(False, use_regex=False)],
                           ignore_merges=True)
    # A piece that no merge forms, and one that merges would form in another way.
    data = json.loads(tokenizer.to_str())
    for piece in ("\u0120zqzq", "zqzq"):
        data["model"]["vocab"][piece] = len(data["model"]["vocab"])
    return Tokenizer.from_str(json.dumps(data))


def smollm(texts):
    return byte_level(texts, [pre_tokenizers.Digits(individual_digits=True),
                              pre_tokenizers.ByteLevel(False, use_regex=True)])


def gpt2(texts):
    return byte_level(texts, [pre_tokenizers.ByteLevel(False, use_regex=True)])


def sentencepiece(texts, normalizer, pre_tokenizer):
    """As the converters of SentencePiece models write them: bytes first, then pieces and merges."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                               normalizers.Replace(" ", "\u2581")])
    # Digits and ASCII only: everything else falls back to bytes.
    ascii_texts = ["".join(c for c in t if c.isascii() and c.isprintable()) for t in texts]
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trained.train_from_iterator(ascii_texts, trainers.BpeTrainer(vocab_size=300,
                                                                 show_progress=False))
    source = json.loads(trained.to_str())["model"]
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    names += sorted(source["vocab"], key=source["vocab"].get)
    tokenizer = Tokenizer(models.BPE(
        vocab={name: i for i, name in enumerate(names)},
        merges=[tuple(m) for m in source["merges"]],
        unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "),
                                           decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


REPLACE = normalizers.Replace(" ", "\u2581")


def llama2(texts):
    return sentencepiece(texts, normalizers.Sequence([normalizers.Prepend("\u2581"), REPLACE]),
                         None)


def gemma(texts):
    return sentencepiece(texts, REPLACE, pre_tokenizers.Split(" ", "merged_with_previous"))


def metaspace(texts, scheme):
    return sentencepiece(texts, None,
                         pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False))


def main():
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    # Without NFC, which Suture leaves out, nothing may change: keep the texts that it does not.
    texts = [t for t in texts if normalizers.NFC().normalize_str(t) == t and len(t) < 300]
    # Nor may training make pieces of the names of control tokens.
    texts = [t for t in texts if "<|" not in t and "</s>" not in t]
    kinds = {
        "qwen2": qwen2, "llama3": llama3, "smollm": smollm, "gpt2": gpt2, "llama2": llama2,
        "gemma": gemma, "metaspace_first": lambda t: metaspace(t, "first"),
        "metaspace_always": lambda t: metaspace(t, "always"),
    }
    for name, make in kinds.items():
        tokenizer = make(texts)
        tokenizer.add_special_tokens([AddedToken("<|end|>", special=True, rstrip=name == "llama2",
                                                 normalized=False)])
        tokenizer.add_tokens([AddedToken("<tool>", normalized=False),
                              AddedToken("</tool>", normalized=False)])
        data = json.loads(tokenizer.to_str())
        (FOLDER / f"{name}.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")
        chosen = EXTRA + texts[::4]
        ids = [[t, tokenizer.encode(t, add_special_tokens=False).ids] for t in chosen]
        (FOLDER / f"{name}.ids.json").write_text(json.dumps(ids, separators=(",", ":")) + "\n")


main()
