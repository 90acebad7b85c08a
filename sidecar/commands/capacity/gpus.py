"""GPUs by name: memory and memory bandwidth of one card, as the maker states them.

Decimal GB and TB/s, peak values. A driver shows more bytes than the name says (an 80 GB card up to 85.5 x 10^9), so the
stated memory is on the safe side. No program reads memory at the peak, so the stated bandwidth is not
(`--gpu.efficiency` corrects it). Sources: the makers' data sheets, named in each row.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    memory_bytes: float
    bytes_per_second: float
    source: str


GPUS = {
    "a10": Gpu(24e9, 600e9, "NVIDIA A10 data sheet"),
    "a100-40gb": Gpu(40e9, 1.555e12, "NVIDIA A100 data sheet, SXM4 40 GB"),
    "a100-80gb": Gpu(80e9, 2.039e12, "NVIDIA A100 data sheet, SXM4 80 GB (PCIe: 1.935 TB/s)"),
    "l4": Gpu(24e9, 300e9, "NVIDIA L4 data sheet"),
    "l40s": Gpu(48e9, 864e9, "NVIDIA L40S data sheet"),
    "h20": Gpu(96e9, 4.0e12, "NVIDIA H20 data sheet"),
    "h100": Gpu(80e9, 3.35e12, "NVIDIA H100 data sheet, SXM5 (PCIe: 2 TB/s)"),
    "h200": Gpu(141e9, 4.8e12, "NVIDIA H200 data sheet"),
    "b200": Gpu(180e9, 8.0e12, "NVIDIA DGX B200 data sheet, an eighth of it"),
    "mi300x": Gpu(192e9, 5.3e12, "AMD Instinct MI300X data sheet"),
    "mi325x": Gpu(256e9, 6.0e12, "AMD Instinct MI325X data sheet"),
}
