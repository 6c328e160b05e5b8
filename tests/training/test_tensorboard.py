from pathlib import Path

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

import lila


def test_every_number_of_every_record_is_there(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    data = torch.rand(6, 1, 4, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    run = lila.fit(
        net,
        data,
        lila.Affine2d(["rotation"]),
        callbacks=[lila.TensorBoard(tmp_path)],
        progress="silent",
        epochs=3,
        passes="probed",
        burn_in=1,
        samples=2,
    )
    events = EventAccumulator(str(tmp_path)).Reload()
    losses = events.Scalars("loss")
    assert [event.step for event in losses] == [1, 2, 3]
    torch.testing.assert_close([event.value for event in losses], [record.loss for record in run.history])
    assert [event.step for event in events.Scalars("evidence/occam_factor")] == [2, 3]
    assert "ranges/rotation" in events.Tags()["scalars"]
