"""The CRC-32 check sum of a message, with its table of 256 remainders.

    python -m examples.crc32

Method: table-driven, reflected polynomial; Sarwate, "Computation of cyclic redundancy checks via table look-up",
Communications of the ACM 31, 1988.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def crc32(message):
    table = np.zeros(256, np.uint32)
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            if remainder & 1:
                remainder = (remainder >> 1) ^ 0xEDB88320
            else:
                remainder = remainder >> 1
        table[byte] = remainder

    crc = np.uint32(0xFFFFFFFF)
    for byte in message:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)


def example(size):
    length = {"small": 1000, "medium": 1_000_000}[size]
    return crc32, (np.random.default_rng(6).integers(0, 256, length).astype(np.uint8),)


def main():
    show.run(example, lambda crc: f"check sum {crc:08x}")


if __name__ == "__main__":
    main()
