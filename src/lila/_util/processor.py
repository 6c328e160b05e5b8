"""What the processor that computes can do."""

import torch

_CPU_BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16", "sve_bf16")  # x86 and ARM, as PyTorch names them


def multiplies_bfloat16(device: torch.device) -> bool:
    """Return whether a device has instructions for matrix products in bfloat16.

    Without them PyTorch converts, which takes longer than float32. False where PyTorch cannot tell, as on CPUs before
    it had `torch.cpu.get_capabilities`.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return False
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in _CPU_BFLOAT16)
