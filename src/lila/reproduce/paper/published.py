"""The numbers that the paper publishes, for comparison with ours."""

ACCURACY: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("mnist", "mlp"): {
        "non-invariant": (93.82, 95.83, 94.15, 97.07, 98.20),
        "augerino": (97.83, 96.35, 94.47, 97.45, 98.45),
        "lila": (97.74, 97.81, 97.28, 98.33, 98.98),
    },
    ("mnist", "cnn"): {
        "non-invariant": (95.97, 97.51, 96.54, 98.37, 99.09),
        "augerino": (99.04, 98.91, 97.79, 98.77, 98.26),
        "lila": (98.83, 98.92, 98.69, 99.01, 99.42),
    },
    ("fashion-mnist", "mlp"): {
        "non-invariant": (77.62, 81.10, 77.68, 81.84, 88.48),
        "augerino": (77.76, 81.40, 78.05, 82.46, 89.10),
        "lila": (87.39, 86.72, 84.62, 84.31, 89.94),
    },
    ("fashion-mnist", "cnn"): {
        "non-invariant": (78.69, 82.12, 80.33, 83.66, 89.54),
        "augerino": (85.76, 81.54, 82.94, 83.58, 90.07),
        "lila": (89.45, 88.40, 87.73, 87.33, 91.92),
    },
    ("cifar10", "resnet-8-8"): {
        "non-invariant": (51.14, 55.29, 64.84, 59.81, 69.74),
        "augerino": (70.88, 70.95, 74.44, 70.67, 79.34),
        "lila": (71.06, 73.03, 74.18, 71.54, 80.22),
    },
    ("cifar10", "resnet-8-16"): {
        "non-invariant": (54.16, 59.90, 69.65, 66.06, 74.13),
        "augerino": (75.40, 74.76, 73.71, 72.07, 79.03),
        "lila": (79.50, 77.71, 79.21, 76.03, 84.19),
    },
}
"""Test accuracy in percent by (data, network) and method: fully and partially rotated, translated, scaled, original."""

EVIDENCE: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("mnist", "mlp"): {
        "non-invariant": (-31.3, -23.1, -36.0, -17.5, -10.5),
        "lila": (-9.7, -10.5, -14.5, -11.3, -6.2),
    },
    ("mnist", "cnn"): {
        "non-invariant": (-14.6, -10.7, -16.5, -9.5, -5.0),
        "lila": (-6.9, -7.2, -8.6, -7.5, -4.3),
    },
    ("fashion-mnist", "mlp"): {
        "non-invariant": (-55.1, -46.2, -52.4, -39.2, -25.5),
        "lila": (-29.3, -29.4, -36.6, -34.7, -22.6),
    },
    ("fashion-mnist", "cnn"): {
        "non-invariant": (-58.7, -49.9, -53.8, -43.3, -28.9),
        "lila": (-26.5, -27.2, -29.2, -30.1, -21.0),
    },
    ("cifar10", "resnet-8-8"): {
        "non-invariant": (-73.1, -67.5, -53.7, -59.3, -46.5),
        "lila": (-51.1, -47.8, -38.6, -41.7, -31.2),
    },
    ("cifar10", "resnet-8-16"): {
        "non-invariant": (-80.9, -72.8, -56.2, -62.0, -46.1),
        "lila": (-43.1, -38.7, -35.4, -40.2, -30.2),
    },
}
"""Log marginal likelihood in thousands of nats, by the same keys and in the same order."""

TRAINING_IMAGES = {"mnist": 60_000, "fashion-mnist": 60_000, "cifar10": 50_000}
"""The number of training images of each data set."""

WIDE_RESNET = {"non-invariant": 85.17, "augerino": 87.67, "lila": 91.98, "lila, empirical Fisher": 91.64}
"""Test accuracy of the wide ResNet on CIFAR-10 in percent, by method."""

SECONDS: dict[str, dict[str, float]] = {
    "resnet-8-8": {"plain epoch": 0.16, "epoch": 1.9, "hyper-step, GGN": 34.5, "hyper-step, empirical Fisher": 14.4},
    "cnn": {"plain epoch": 0.08, "epoch": 0.5, "hyper-step, GGN": 11.1, "hyper-step, empirical Fisher": 7.3},
    "mlp": {"plain epoch": 0.06, "epoch": 0.3, "hyper-step, GGN": 12.9, "hyper-step, empirical Fisher": 5.9},
}
"""Seconds by network on an NVIDIA A30, with S = 11."""
