#!/usr/bin/env python3
"""Writes the hostile files beside it: one folder for each kind of tests/hostile_kinds.h, one file
for each fault, named after it. Needs Python 3 alone.

    python3 tests/data/hostile/make_cases.py
"""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def write(kind, name, content):
    folder = HERE / kind
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


# ---- GGUF ----

def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


U32, F32, STRING, ARRAY, U64 = 4, 6, 8, 9, 10


def entry(key, kind, value):
    packed = {U32: "<I", F32: "<f", U64: "<Q"}
    body = text(value) if kind == STRING else struct.pack(packed[kind], value)
    return text(key) + struct.pack("<I", kind) + body


def tensor(name, dims, kind=0, offset=0):
    return (text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
            + struct.pack("<IQ", kind, offset))


def gguf(entries, tensors, n_tensors=None, n_entries=None, version=3, data=b"\0" * 4096):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                                 len(entries) if n_entries is None else n_entries)
    body = head + b"".join(entries) + b"".join(tensors)
    return body + b"\0" * (-len(body) % 32) + data


LLAMA = {"block_count": 1, "context_length": 64, "embedding_length": 8, "feed_forward_length": 12,
         "attention.head_count": 2, "attention.head_count_kv": 1, "vocab_size": 5}


TOKENS = (text("tokenizer.ggml.tokens") + struct.pack("<IIQ", ARRAY, STRING, 5)
          + b"".join(text(piece) for piece in ("<s>", "a", "b", "ab", "c")))


def llama(epsilon=1e-5, **changed):
    numbers = {**LLAMA, **{key.replace("__", "."): value for key, value in changed.items()}}
    return ([entry("general.architecture", STRING, "llama")]
            + [entry(f"llama.{key}", U32, value) for key, value in numbers.items()]
            + [entry("llama.attention.layer_norm_rms_epsilon", F32, epsilon)])


def llama_tensors():
    shapes = [("token_embd.weight", [8, 5]), ("blk.0.attn_norm.weight", [8]),
              ("blk.0.attn_q.weight", [8, 8]), ("blk.0.attn_k.weight", [8, 4]),
              ("blk.0.attn_v.weight", [8, 4]), ("blk.0.attn_output.weight", [8, 8]),
              ("blk.0.ffn_norm.weight", [8]), ("blk.0.ffn_gate.weight", [8, 12]),
              ("blk.0.ffn_up.weight", [8, 12]), ("blk.0.ffn_down.weight", [12, 8]),
              ("output_norm.weight", [8])]
    tensors, offset = [], 0
    for name, dims in shapes:
        tensors.append((name, dims, 0, offset))
        size = 4 * dims[0] * (dims[1] if len(dims) > 1 else 1)
        offset += size + -size % 32
    return tensors


def packed(tensors):
    return [tensor(*t) for t in tensors]


def with_tensor(index, **changed):
    tensors = llama_tensors()
    name, dims, kind, offset = tensors[index]
    tensors[index] = (changed.get("name", name), changed.get("dims", dims),
                      changed.get("kind", kind), changed.get("offset", offset))
    return packed(tensors)


def make_gguf():
    good = packed(llama_tensors())
    cases = {
        "empty": b"",
        "magic-alone": b"GGUF",
        "version-0": gguf(llama(), good, version=0),
        "tensors-2-to-the-60": gguf(llama(), good, n_tensors=1 << 60),
        "tensors-all-bits": gguf(llama(), good, n_tensors=(1 << 64) - 1),
        "entries-2-to-the-60": gguf(llama(), good, n_entries=1 << 60),
        "key-beyond-the-end": gguf([struct.pack("<Q", 1 << 40) + b"general"], good),
        "key-length-wraps": gguf([struct.pack("<Q", (1 << 64) - 4) + b"general"], good),
        "type-unknown": gguf([text("a") + struct.pack("<I", 99) + b"\0" * 8] + llama(), good),
        "array-2-to-the-61": gguf(
            [text("a") + struct.pack("<IIQ", ARRAY, U64, 1 << 61)] + llama(), good),
        "array-of-arrays": gguf(
            [text("a") + struct.pack("<IIQ", ARRAY, ARRAY, 1)
             + struct.pack("<IQ", ARRAY, 1) * 5000] + llama(), good),
        "array-of-empty-strings": gguf(
            [text("a") + struct.pack("<IIQ", ARRAY, STRING, 1 << 40)] + llama(), good),
        "alignment-0": gguf([entry("general.alignment", U32, 0)] + llama(), good),
        "alignment-3": gguf([entry("general.alignment", U32, 3)] + llama(), good),
        "alignment-2-to-the-31": gguf([entry("general.alignment", U32, 1 << 31)] + llama(), good),
        "key-twice": gguf(llama() + [entry("llama.block_count", U32, 2)], good),
        "tensor-twice": gguf(llama(), good + [good[0]]),
        "dims-overflow": gguf(llama(), with_tensor(0, dims=[1 << 33, 1 << 33])),
        "dims-negative": gguf(llama(), with_tensor(0, dims=[(1 << 64) - 8, 5])),
        "dims-0": gguf(llama(), with_tensor(0, dims=[0, 5])),
        "dims-100": gguf(llama(), with_tensor(0, dims=[1] * 100)),
        "offset-beyond-the-end": gguf(llama(), with_tensor(3, offset=1 << 40)),
        "offset-wraps": gguf(llama(), with_tensor(3, offset=(1 << 64) - 32)),
        "offset-not-aligned": gguf(llama(), with_tensor(3, offset=33)),
        "tensor-type-unknown": gguf(llama(), with_tensor(2, kind=77)),
        "name-of-64-kib": gguf(llama(), with_tensor(2, name="x" * (1 << 16))),
        "name-not-utf8": gguf(llama(), with_tensor(2, name=b"\xff\xfe\x00\x1b[31m")),
        "heads-0": gguf(llama(attention__head_count=0), good),
        "kv-heads-3": gguf(llama(attention__head_count_kv=3), good),
        "layers-2-to-the-32": gguf(llama(block_count=(1 << 32) - 1), good),
        "head-dim-odd": gguf(llama(attention__key_length=3), good),
        "mlp-without-bound": gguf(llama(feed_forward_length=1 << 20), good),
        "heads-without-bound": gguf(
            llama(attention__head_count=1024, attention__key_length=1024), good),
        "vocabulary-without-bound": gguf(llama(vocab_size=1 << 24), good),
        "epsilon-nan": gguf(llama(epsilon=float("nan")), good),
        "epsilon-infinite": gguf(llama(epsilon=float("inf")), good),
        "data-missing": gguf(llama(), good, data=b""),
        "tokenizer-model-of-escapes": gguf(
            [entry("tokenizer.ggml.model", STRING, b"\0\x1b[31m"), TOKENS] + llama(), good),
        "pre-tokenizer-of-escapes": gguf(
            [entry("tokenizer.ggml.model", STRING, "gpt2"),
             entry("tokenizer.ggml.pre", STRING, b"\0\x1b[31m"), TOKENS] + llama(), good),
    }
    for name, content in cases.items():
        write("gguf", name, content)
    part = [entry("split.no", U32, 0), entry("split.count", U32, 2)]
    write("gguf-first-part", "count-differs", gguf(llama() + part[:1]
                                                   + [entry("split.count", U32, 65535)], good))
    write("gguf-first-part", "number-of-another", gguf(
        llama() + [entry("split.no", U32, 7)] + part[1:], good))
    write("gguf-second-part", "cut", gguf(part, good)[:60])


# ---- Checkpoint folders ----

def safetensors(header, data=b"\0" * 512, length=None):
    body = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(body) if length is None else length) + body + data


def make_safetensors():
    def one(**changed):
        return {"model.norm.weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32],
                                      **changed}}

    cases = {
        "empty": b"",
        "header-beyond-the-end": safetensors({}, length=1 << 40),
        "header-length-wraps": safetensors({}, length=(1 << 64) - 8),
        "header-no-json": safetensors(b"{" * 100),
        "header-deep": safetensors(b"[" * 100000),
        "header-a-list": safetensors(b"[]"),
        "offsets-backwards": safetensors(one(data_offsets=[32, 0])),
        "offsets-beyond-the-end": safetensors(one(data_offsets=[0, 1 << 40])),
        "offsets-negative": safetensors(one(data_offsets=[-32, 0])),
        "offsets-of-another-size": safetensors(one(data_offsets=[0, 16])),
        "offsets-of-text": safetensors(one(data_offsets=["0", "32"])),
        "shape-overflows": safetensors(one(shape=[1 << 33, 1 << 33])),
        "shape-negative": safetensors(one(shape=[-8])),
        "shape-fraction": safetensors(one(shape=[7.5])),
        "type-unknown": safetensors(one(dtype="F128")),
        "type-without-name": safetensors(one(dtype="", shape=[8])),
        "tensor-twice": safetensors(
            b'{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]},'
            b'"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}'),
    }
    for name, content in cases.items():
        write("safetensors", name, content)


def make_index():
    names = "model-00001-of-00002.safetensors"
    cases = {
        "no-json": "{",
        "no-map": "{}",
        "map-a-list": '{"weight_map": []}',
        "shard-outside": '{"weight_map": {"model.norm.weight": "../../etc/passwd"}}',
        "shard-absolute": '{"weight_map": {"model.norm.weight": "/dev/zero"}}',
        "shard-missing": '{"weight_map": {"model.norm.weight": "model-00009-of-00009.safetensors"}}',
        "shard-a-number": '{"weight_map": {"model.norm.weight": 1}}',
        "tensor-nowhere": json.dumps({"weight_map": {"no.such.tensor": names}}),
        "deep": '{"weight_map": ' + "[" * 50000,
    }
    for name, content in cases.items():
        write("index", name, content)


CONFIG = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "head_dim": 4,
          "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1,
          "vocab_size": 5, "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
          "rope_theta": 10000.0, "tie_word_embeddings": True}


def make_config():
    def changed(**values):
        return json.dumps({**CONFIG, **values})

    cases = {
        "empty": "",
        "a-list": "[]",
        "deep": "{\"a\":" * 20000,
        "key-twice": '{"model_type": "llama", "model_type": "qwen2"}',
        "not-utf8": b'{"model_type": "\xff"}',
        "heads-0": changed(num_attention_heads=0),
        "heads-negative": changed(num_attention_heads=-2),
        "heads-fraction": changed(num_attention_heads=1.5),
        "heads-text": changed(num_attention_heads="2"),
        "heads-2-to-the-70": changed(num_attention_heads=1 << 70),
        "epsilon-text": changed(rms_norm_eps="NaN"),
        "epsilon-nan": changed(rms_norm_eps=float("nan")),
        "epsilon-huge": '{"model_type": "llama", "rms_norm_eps": 1e999}',
        "theta-0": changed(rope_theta=0),
        "scaling-unknown": changed(rope_scaling={"rope_type": "spiral", "factor": 2}),
        "scaling-factor-0": changed(rope_scaling={"rope_type": "linear", "factor": 0}),
        "scaling-a-number": changed(rope_scaling=4),
        "longrope-factors-short": changed(
            model_type="phi3", rope_scaling={"type": "longrope", "short_factor": [1.0],
                                             "long_factor": [1.0]}),
        "layer-types-short": changed(model_type="gemma3_text", num_hidden_layers=3,
                                     layer_types=["full_attention"]),
        "hidden-without-bound": changed(hidden_size=1 << 30),
        "mlp-without-bound": changed(intermediate_size=1 << 20),
        "architecture-unknown": changed(model_type="mamba" * 1000),
    }
    for name, content in cases.items():
        write("config", name, content)


# ---- tokenizer.json ----

def make_tokenizer():
    def bpe(vocab=None, merges=("a b",), **changed):
        return json.dumps({
            "added_tokens": [],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": vocab or {"a": 0, "b": 1, "ab": 2},
                      "merges": list(merges)}, **changed})

    nested = {"type": "ByteLevel"}
    for _ in range(40):
        nested = {"type": "Sequence", "pretokenizers": [nested]}
    cases = {
        "empty": "",
        "no-model": "{}",
        "deep": '{"model":' * 20000,
        "model-unknown": bpe(model={"type": "Oracle"}),
        "vocab-a-list": bpe(model={"type": "BPE", "vocab": [], "merges": []}),
        "id-twice": bpe({"a": 0, "b": 0, "ab": 1}),
        "id-negative": bpe({"a": 0, "b": -1, "ab": 2}),
        "id-2-to-the-62": bpe({"a": 0, "b": 1 << 62, "ab": 2}),
        "id-far": bpe({"a": 0, "b": 1, "ab": 1 << 30}),
        "merge-no-pair": bpe(merges=["ab"]),
        "merge-a-number": bpe(merges=[7]),
        "regex-unknown": bpe(pre_tokenizer={
            "type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}),
        "regex-broken": bpe(pre_tokenizer={
            "type": "Split", "pattern": {"Regex": "(" * 1000}, "behavior": "Isolated"}),
        "pre-tokenizer-deep": bpe(pre_tokenizer=nested),
        "added-token-far": bpe(added_tokens=[{"id": 1 << 31, "content": "<x>", "special": True}]),
        "byte-tokens-missing": bpe(pre_tokenizer=None, decoder={"type": "ByteFallback"}, model={
            "type": "BPE", "byte_fallback": True, "vocab": {"<0x61>": 0, "b": 1}, "merges": []}),
        "more-tokens-than-rows": bpe({f"t{i}": i for i in range(1000)}, merges=[]),
    }
    for name, content in cases.items():
        write("tokenizer", name, content)


# ---- Topologies ----

def make_topology():
    model = '[[model]]\nname = "m"\nrole = "master"\npath = "a.gguf"\n'
    cases = {
        "empty": "",
        "not-utf8": b"\xff\xfe\x00",
        "no-model": "[bus]\nmax_seq_len = 32\n",
        "two-masters": model + model.replace('"m"', '"n"'),
        "a-name-twice": model + model.replace("master", "slave"),
        "key-unknown": model + "threadz = 1\n",
        "key-of-50000-bytes": model + "x" * 50000 + " = 1\n",
        "name-with-escapes": model.replace('"m"', '"\\u001b[31m"'),
        "name-of-a-path": model.replace('"m"', '"../m"'),
        "length-negative": "[bus]\nmax_seq_len = -1\n" + model,
        "length-2-to-the-63": "[bus]\nmax_seq_len = 9223372036854775807\n" + model,
        "length-beyond-64-bits": "[bus]\nmax_seq_len = 99999999999999999999999\n" + model,
        "threads-text": model + 'threads = "many"\n',
        "temperature-nan": model + "[sampling]\ntemperature = nan\n",
        "gain-plus-infinity": model + '[[model]]\nname = "s"\nrole = "slave"\npath = "a.gguf"\n'
                              "fusion = { gain = inf }\n",
        "deep": model + "x = " + "[" * 20000,
        "models-200": "".join(model.replace('"m"', f'"m{i}"') for i in range(200)),
    }
    for name, content in cases.items():
        write("topology", name, content)


if __name__ == "__main__":
    for make in (make_gguf, make_safetensors, make_index, make_config, make_tokenizer,
                 make_topology):
        make()
