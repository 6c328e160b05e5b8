"""Whether a device has instructions for bfloat16."""

from typing import Any

import pytest
import torch

from lila._util.processor import multiplies_bfloat16


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_f": True, "amx_bf16": False, "avx512_bf16": False}, False),
        ({"avx512_f": True, "amx_bf16": False, "avx512_bf16": True}, True),
        ({"amx_bf16": True}, True),
        ({"neon": True, "bf16": True}, True),
        ({"neon": True, "bf16": False}, False),
        ({}, False),
    ],
)
def test_of_a_cpu_it_is_what_pytorch_says(
    capabilities: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert multiplies_bfloat16(torch.device("cpu")) is expected


def test_a_cpu_of_which_pytorch_cannot_tell_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not multiplies_bfloat16(torch.device("cpu"))


def test_a_gpu_that_would_emulate_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert not multiplies_bfloat16(torch.device("cuda"))


def test_other_devices_do_not() -> None:
    assert not multiplies_bfloat16(torch.device("meta"))
