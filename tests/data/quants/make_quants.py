#!/usr/bin/env python3
"""Writes the reference blocks beside this file; needs `pip install gguf numpy`.

<type>.bin holds random blocks of a GGUF weight type, <type>.f32 what gguf-py's own numpy code
makes of them (little-endian float32). All bit patterns occur in the packed fields; the half
precision scales are finite, of both signs, and some are subnormal.
"""
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent
# type: (bytes of a block, offsets of its half precision fields, blocks)
TYPES = {
    "q4_0": (18, (0,), 11),
    "q4_1": (20, (0, 2), 11),
    "q5_0": (22, (0,), 11),
    "q8_0": (34, (0,), 11),
    "q4_k": (144, (0, 2), 5),
    "q5_k": (176, (0, 2), 5),
    "q6_k": (210, (208,), 5),
    "f16": (2, (0,), 300),
    "bf16": (2, (), 300),
    "q5_1": (24, (0, 2), 11),
    "q2_k": (84, (80, 82), 5),
    "q3_k": (110, (108,), 5),
    "iq4_nl": (18, (0,), 11),
}


def main():
    rng = np.random.default_rng(20240601)
    for name, (block_bytes, halves, blocks) in TYPES.items():
        data = rng.integers(0, 256, (blocks, block_bytes), dtype=np.uint8)
        for offset in halves:
            scale = (rng.standard_normal(blocks) * 0.05).astype(np.float16)
            scale[:2] = (np.float16(6e-8), np.float16(-3e-6))
            data[:, offset : offset + 2] = scale.view(np.uint8).reshape(blocks, 2)
        if name == "bf16":
            values = rng.standard_normal(blocks).astype(np.float32)
            data = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        kind = gguf.GGMLQuantizationType[name.upper()]
        expected = gguf.quants.dequantize(data.reshape(-1), kind).astype("<f4")
        (HERE / f"{name}.bin").write_bytes(data.tobytes())
        (HERE / f"{name}.f32").write_bytes(expected.tobytes())


main()
