"""The table of the gallery's cases."""

from lila.reproduce.gallery import colours, images, points, series
from lila.reproduce.gallery.problem import Case

CASES: dict[str, Case] = {
    "recoloured-digits": Case(
        "Colour: recoloured digits",
        "500 of scikit-learn's digits in red ink on grey paper, whose hue is then turned by a random angle. The digit "
        "does not depend on its colour: the hue should be learned as a half turn to each side, which is all of it.",
        colours.recoloured_digits,
    ),
    "partly-recoloured-digits": Case(
        "Colour: partly recoloured digits",
        "The same digits, whose hue is turned by up to ±120° only. The digit does not depend on the other hues either.",
        colours.partly_recoloured_digits,
    ),
    "two-inks": Case(
        "Colour: digits in two inks",
        "About 450 digits from 0 to 4 in red or cyan ink, which are opposite hues; the class is the digit and its ink. "
        "The hue is turned by up to ±60°. A range has an end if something is lost beyond it: here red and cyan meet at "
        "±90°. But the hue stays at zero.",
        colours.digits_in_two_inks,
    ),
    "another-ink": Case(
        "Colour: digits, and another ink",
        "600 digits. Five of six are in red ink, whose hue is turned by up to ±120°; the sixth is in cyan ink, the "
        "opposite hue, turned by up to ±20°, and the eleventh class, whichever digit it is. A part of the range is "
        "learned.",
        colours.digits_and_another_ink,
    ),
    "faded-digits": Case(
        "Colour: gamma",
        "The same digits, raised to a random power between a quarter and four.",
        colours.faded_digits,
    ),
    "dimmed-digits": Case(
        "Colour: brightness, contrast and saturation",
        "The same digits, with random brightness, contrast and saturation. All ranges stay at zero: the network can "
        "ignore these changes by its weights.",
        colours.dimmed_digits,
    ),
    "channels": Case(
        "Colour: gains of the channels",
        "The same digits, with each channel multiplied by a random factor between 0.1 and 1.9. Red ink on grey paper "
        "can be read in the red channel alone; in the others, a digit does not show.",
        colours.channels_of_digits,
    ),
    "inks": Case(
        "Colour: where it is the class",
        "500 digits in five inks, 72° apart. The class is the ink: the hue should stay at zero.",
        colours.inks,
    ),
    "photographs": Case(
        "Colour: recoloured photographs",
        "1,600 photographs of CIFAR-10, of aeroplanes, cars, frogs and horses, at 8 x 8 pixels. Their hue is turned by "
        "a random angle. Nothing else was changed, but photographs differ in contrast and saturation by themselves.",
        colours.photographs,
    ),
    "dimmed-photographs": Case(
        "Colour: brightness, contrast and saturation of photographs",
        "The same photographs, with random brightness, contrast and saturation. Here the network overfits, and light "
        "and contrast are something by which it can. Their ranges leave zero, but are not those of the data.",
        colours.dimmed_photographs,
    ),
    "mnist1d": Case(
        "Time series: shifted digits of mnist1d",
        "800 series of the generator of mnist1d. Of its changes only the shift is left on, by up to ±6.4 of 40 steps.",
        series.shifted_mnist1d,
    ),
    "demand": Case(
        "Time series: shifted days of ItalyPowerDemand",
        "618 days of the demand for electricity in Italy, an hour a step, from the UCR archive; the classes are summer "
        "and winter. Each day is shifted by up to ±3 hours.",
        series.shifted_demand,
    ),
    "gestures": Case(
        "Time series: gestures of GunPoint, slower and faster",
        "90 gestures of a hand that draws a gun or points, 150 steps each, from the UCR archive. Each is made slower "
        "or faster by a factor of up to exp(0.4), as people differ in speed. So few series tell little about five "
        "ranges: the dilation is found, but not only that.",
        series.dilated_gestures,
    ),
    "flips": Case(
        "Flips: mirrored garments",
        "1,000 garments of Fashion-MNIST at 14 x 14 pixels, each mirrored left to right with probability 1/2, and none "
        "top to bottom. The families are `HorizontalFlip` and `VerticalFlip`.",
        images.flipped_garments,
    ),
    "no-flips": Case(
        "Flips: garments as they are",
        "The same garments, not mirrored. All shoes point to the left, and most other garments are nearly symmetric.",
        images.garments_as_they_are,
    ),
    "kornia": Case(
        "kornia: turned digits",
        "800 digits, turned by up to ±90°. The families are the functions `rotate` and `translate` of kornia.",
        images.turned_by_kornia,
    ),
    "clouds": Case(
        "Points: digits turned about the vertical axis",
        "Sixteen points of each of 600 digits: the middle of the ink in each row and column, as high as there is ink. "
        "All are turned about the z axis by a random angle, and not moved otherwise.",
        points.turned_clouds,
    ),
    "molecules": Case(
        "Points: molecules on a surface",
        "400 molecules: the five isomers of C4H6 that come inside of ase, which stand or lie on a surface. Each isomer "
        "is two classes. Atoms are displaced by up to 0.3 angstroms along each axis, and each molecule is turned about "
        "the z axis by a random angle. A turn about another axis lays down what stands. The jitter is learned as well, "
        "and stays at zero.",
        points.molecules,
    ),
}
"""All cases by name."""
