import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lila import ArgumentError, Draw
from lila.augment.noise import Stream, balanced_noise, philox

# The published known answers of Philox-4x32-10: counter words, key words, result words.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    c0, c1, c2, c3 = (torch.tensor([word]) for word in counter)
    assert tuple(philox((c0, c1, c2, c3), key)[0].tolist()) == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.permutations(range(7)), st.integers(1, 9))
def test_noise_belongs_to_the_example_and_not_to_its_batch(
    seed: int, epoch: int, order: list[int], samples: int
) -> None:
    draw = Draw(seed, epoch)
    together = draw.uniform(torch.arange(7), (samples, 3), torch.float64)
    for index in order:
        alone = draw.uniform(torch.tensor([index]), (samples, 3), torch.float64)
        assert torch.equal(alone[0], together[index])
    assert together.abs().max() <= 1


def test_seeds_epochs_examples_and_uses_have_noise_of_their_own() -> None:
    index = torch.tensor([3])
    words = [
        Draw(0, 0).words(index, (8,), Stream.AUGMENTATION),
        Draw(1, 0).words(index, (8,), Stream.AUGMENTATION),
        Draw(2**32, 0).words(index, (8,), Stream.AUGMENTATION),
        Draw(0, 1).words(index, (8,), Stream.AUGMENTATION),
        Draw(0, 0).words(index + 2**32, (8,), Stream.AUGMENTATION),
        Draw(0, 0).words(index, (8,), Stream.PROBES),
    ]
    assert len({tuple(w[0].tolist()) for w in words}) == len(words)


def test_noise_is_uniform_and_uncorrelated() -> None:
    noise = Draw(7).uniform(torch.arange(20_000), (4, 3), torch.float64).flatten(1)
    count = len(noise)
    assert noise.mean(0).abs().max() < 4.5 * (1 / 3 / count) ** 0.5
    assert (noise.square().mean(0) - 1 / 3).abs().max() < 4.5 * (4 / 45 / count) ** 0.5
    correlation = torch.corrcoef(noise.mT) - torch.eye(12, dtype=torch.float64)
    assert correlation.abs().max() < 4.5 / count**0.5


def test_float32_noise_is_rounded_float64_noise() -> None:
    index = torch.arange(50)
    single, double = (Draw(3).uniform(index, (5, 2), dtype) for dtype in (torch.float32, torch.float64))
    assert single.dtype == torch.float32
    assert torch.equal(double.float(), single)


def test_signs_are_fair_and_the_first_ones_do_not_depend_on_their_number() -> None:
    index = torch.arange(10_000)
    signs = Draw(1).signs(index, (2, 3), torch.float64)
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert signs.mean(0).abs().max() < 4.5 / 100
    assert torch.equal(signs[:, :1], Draw(1).signs(index, (1, 3), torch.float64))


@given(st.integers(1, 60), st.data())
def test_a_subset_has_no_repetition(size: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, size))
    chosen = Draw(5, 1).subset(size, count)
    assert len(set(chosen.tolist())) == count
    assert chosen.tolist() == sorted(chosen.tolist())
    assert 0 <= int(chosen.min()) <= int(chosen.max()) < size


def test_every_example_is_as_likely_to_be_in_a_subset() -> None:
    counts = torch.zeros(10)
    for epoch in range(3000):
        counts[Draw(0, epoch).subset(10, 3)] += 1
    assert (counts / 3000 - 0.3).abs().max() < 4.5 * (0.21 / 3000) ** 0.5


@pytest.mark.parametrize("draw", [{"seed": -1}, {"seed": 2**64}, {"epoch": -1}, {"epoch": 2**32}])
def test_seed_and_epoch_out_of_range_are_refused(draw: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match="must be a whole number in"):
        Draw(**draw)


@pytest.mark.parametrize("count", [0, 11])
def test_a_subset_larger_than_the_data_is_refused(count: int) -> None:
    with pytest.raises(ArgumentError, match="between 1 and 10"):
        Draw().subset(10, count)


@given(st.integers(1, 100), st.integers(0, 8))
def test_noise_of_predictions_is_balanced(samples: int, dimensions: int) -> None:
    """Along each axis the middles of equal parts, each once."""
    noise = balanced_noise(samples, dimensions)
    assert noise.shape == (samples, dimensions)
    middles = (torch.arange(samples, dtype=torch.float64) + 0.5) / samples * 2 - 1
    torch.testing.assert_close(noise.sort(dim=0).values, middles[:, None].expand(-1, dimensions))


@pytest.mark.parametrize("samples", [12, 31, 100])
def test_noise_of_predictions_is_less_correlated_than_random_noise(samples: int) -> None:
    def correlation(noise: torch.Tensor) -> float:
        covariance = noise.mT @ noise / samples
        return float((covariance - covariance.diag().diag()).square().mean())

    random = [Draw(seed).uniform(torch.zeros(1).long(), (samples, 6), torch.float64)[0] for seed in range(50)]
    assert correlation(balanced_noise(samples, 6)) < 0.6 * sum(map(correlation, random)) / len(random)


@given(st.integers(0, 2**64 - 1), st.integers(1, 12), st.integers(1, 4))
def test_stratified_views_take_one_part_of_each_axis_each(seed: int, samples: int, dimensions: int) -> None:
    noise = Draw(seed).stratified(torch.arange(5), (samples, dimensions), torch.float64)
    parts = ((noise + 1) / 2 * samples).floor().long().sort(dim=1).values
    assert torch.equal(parts, torch.arange(samples)[None, :, None].expand_as(parts))
    alone = Draw(seed).stratified(torch.tensor([3]), (samples, dimensions), torch.float64)
    assert torch.equal(alone[0], noise[3])


def test_every_stratified_view_is_uniform_and_its_axes_are_uncorrelated() -> None:
    samples, dimensions, count = 3, 2, 20_000
    noise = Draw(5).stratified(torch.arange(count), (samples, dimensions), torch.float64)
    expected = (torch.arange(count) + 0.5) / count * 2 - 1
    distance = (noise.sort(dim=0).values - expected[:, None, None]).abs().amax(0) / 2  # Kolmogorov and Smirnov's
    assert distance.max() < 1.95 / count**0.5
    axes = noise.permute(2, 1, 0).flatten(1)  # all views of the first axis, then of the second
    assert torch.corrcoef(axes)[0, 1].abs() < 4.5 / (samples * count) ** 0.5
    # Views of one example avoid each other: with S parts, the correlation of two is close to -1 / S.
    between = torch.corrcoef(noise[:, :, 0].mT)[0, 1]
    assert between < -0.25


def test_averages_over_stratified_views_vary_less() -> None:
    index, samples = torch.arange(4_000), 8
    draws = {name: getattr(Draw(2), name)(index, (samples, 1), torch.float64) for name in ("uniform", "stratified")}
    spread = {name: float(noise.exp().mean(1).var()) for name, noise in draws.items()}
    assert spread["stratified"] < spread["uniform"] / 30
