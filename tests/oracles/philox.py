"""Philox-4x64-10 as published (Salmon et al., SC 2011), with Python's integers."""

MASK = 2**64 - 1


def philox(counter: list[int], key: list[int]) -> list[int]:
    """The four 64-bit words of one counter."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2E7470EE14C6C93 * a, 2**64)
        high1, low1 = divmod(0xCA5A826395121157 * c, 2**64)
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return [a, b, c, d]
