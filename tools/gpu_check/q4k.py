"""GGUF Q4_K in PyTorch, written for this check alone: a min/max quantizer and the dequantization of the format.

A super-block is 144 bytes for 256 weights: half d, half dmin, 12 bytes of eight 6-bit scales and eight 6-bit minimums, 128
bytes of nibbles. Weight = d * scale * q - dmin * minimum, with one scale and minimum for each 32 weights.
"""
import torch

BLOCK_WEIGHTS, BLOCK_BYTES = 256, 144


def quantize(weights):
    """float [n, k] to uint8 [n, k / 256 * 144], by the minimum and maximum of each 32 weights."""
    n, k = weights.shape
    groups = weights.float().view(n, k // 256, 8, 32)
    low = groups.amin(-1).clamp(max=0)
    step = (groups.amax(-1).clamp(min=0) - low) / 15
    d = (step.amax(-1) / 63).half()
    dmin = (-low.amin(-1) / 63).half()

    def code(value, unit):
        unit = unit.float().unsqueeze(-1)
        return torch.where(unit > 0, (value / unit.clamp(min=1e-30)).round(), torch.zeros_like(value)).clamp(0, 63).to(torch.uint8)

    sc, mn = code(step, d), code(-low, dmin)
    scale = d.float().unsqueeze(-1) * sc.float()
    offset = dmin.float().unsqueeze(-1) * mn.float()
    q = ((groups + offset.unsqueeze(-1)) / scale.unsqueeze(-1).clamp(min=1e-30)).round().clamp(0, 15).to(torch.uint8)

    # Scales 0-3 and minimums 0-3 fill six bits of a byte each; the high two bits of scales and minimums 4-7 sit above them.
    packed = torch.empty(n, k // 256, 12, dtype=torch.uint8, device=weights.device)
    packed[..., 0:4] = sc[..., 0:4] | ((sc[..., 4:8] >> 4) << 6)
    packed[..., 4:8] = mn[..., 0:4] | ((mn[..., 4:8] >> 4) << 6)
    packed[..., 8:12] = (sc[..., 4:8] & 15) | ((mn[..., 4:8] & 15) << 4)

    # Each 32 bytes hold sub-block 2c in their low and 2c + 1 in their high nibbles.
    pairs = q.view(n, k // 256, 4, 2, 32)
    nibbles = (pairs[..., 0, :] | (pairs[..., 1, :] << 4)).reshape(n, k // 256, 128)
    halves = torch.stack((d, dmin), -1).contiguous().view(torch.uint8).view(n, k // 256, 4)
    return torch.cat((halves, packed, nibbles), -1).reshape(n, k // 256 * BLOCK_BYTES).contiguous()


def dequantize(blocks, dtype=torch.float64):
    """uint8 [n, k / 256 * 144] to [n, k]."""
    n = blocks.shape[0]
    block = blocks.view(n, -1, BLOCK_BYTES)
    halves = block[..., 0:4].contiguous().view(torch.float16).to(dtype)
    packed, nibbles = block[..., 4:16], block[..., 16:144].view(n, -1, 4, 32)
    sc = torch.cat((packed[..., 0:4] & 63, (packed[..., 8:12] & 15) | ((packed[..., 0:4] >> 6) << 4)), -1)
    mn = torch.cat((packed[..., 4:8] & 63, (packed[..., 8:12] >> 4) | ((packed[..., 4:8] >> 6) << 4)), -1)
    q = torch.stack((nibbles & 15, nibbles >> 4), -2).reshape(n, -1, 8, 32)
    weights = halves[..., 0, None, None] * sc[..., None].to(dtype) * q.to(dtype) - halves[..., 1, None, None] * mn[..., None].to(dtype)
    return weights.reshape(n, -1)
