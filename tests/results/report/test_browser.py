"""Reports in a real browser: sliders, sizes of screens, light and dark, and what those need who see or point badly."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import lila
from lila.data.task import Scaling
from lila.reproduce.engine.sheets import experiment_section, sheets
from lila.results.report import write_report
from reports import Shown, experiment_outcome, made_up_sheet


def test_sliders_move_all_images(browser: Any, tmp_path: Path) -> None:
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    augmentation = lila.Compose(lila.Affine2d(["x-translation", "rotation"], init=[0.0, 1.5]), lila.HorizontalFlip(0.4))
    write_report([made_up_sheet(augmentation, images, Scaling((0.0,), (1.0,)))], tmp_path / "r.html")
    shown = Shown(browser, tmp_path / "r.html")
    page = shown.page
    rotation, shift = (page.get_by_role("slider", name=name) for name in ("rotation", "x-translation"))
    flip = page.get_by_role("combobox", name="horizontal flip")
    assert page.locator("output").all_inner_texts() == ["each its own"] * 2
    page.get_by_role("button", name="As they are").click()
    (original,) = shown.pixels()
    assert original == (images[0] * 255).round().int().flatten().tolist()
    assert page.locator("output").all_inner_texts() == ["+0.0°", "+0.00 px"]
    rotation.press("End")
    assert page.locator("output").first.inner_text() == "+85.9°"
    assert rotation.get_attribute("aria-valuetext") == "+85.9°"
    (turned,) = shown.pixels()
    assert turned != original
    shift.press("End")
    assert shown.pixels() == [turned]  # a range of zero moves nothing
    page.get_by_role("button", name="As they are").click()
    flip.select_option(label="horizontal flip (40.0%)")
    assert shown.pixels() == [(images[0].flip(-1) * 255).round().int().flatten().tolist()]
    page.get_by_role("button", name="Random draws").click()
    assert shown.pixels() not in ([original], [turned])
    assert not shown.problems


def test_a_family_that_the_script_does_not_know_moves_through_pictures(browser: Any, tmp_path: Path) -> None:
    class Turned(lila.Affine2d):
        """A class of one's own may do something else."""

    sheet = made_up_sheet(Turned(["rotation"], init=1.5), torch.rand(3, 1, 8, 8), Scaling((0.0,), (1.0,)))
    write_report([sheet], tmp_path / "r.html")
    shown = Shown(browser, tmp_path / "r.html")
    slider, output, window = (shown.page.locator(name) for name in ("input[type=range]", "output", ".window"))
    seen = [window.screenshot()]
    for _ in range(3):
        slider.press("ArrowRight")
        seen.append(window.screenshot())
    assert output.inner_text() == "+0.3 of the range"
    assert len(set(seen)) == 4
    shown.page.locator("select").select_option(label="everything at once: random draws")
    assert output.inner_text() == "draw 14 of 21"
    assert window.screenshot() not in seen
    assert not shown.problems


CONTRAST = """(() => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number).map(v => colour.startsWith("color(") ? v : v / 255);
    const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = colour => numbers(colour).slice(0, 3).map(linear)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = e => {
        const colour = getComputedStyle(e).backgroundColor;
        return colour === "rgba(0, 0, 0, 0)" ? ground(e.parentElement) : light(colour);
    };
    const texts = "h1, h2, h3, p, a, li, dt, dd, td, th, label, output, button, figcaption, summary, code, footer, svg";
    return [...document.querySelectorAll(texts)].filter(e => e.textContent.trim()).map(e => {
        const ink = light(getComputedStyle(e).color), below = ground(e);
        return [(Math.max(ink, below) + 0.05) / (Math.min(ink, below) + 0.05), e.outerHTML.slice(0, 80)];
    }).filter(([contrast]) => contrast < 4.5);
})()"""
CLIPPED = """[...document.querySelectorAll("h1, h2, h3, p, td, th, caption, summary, label, option, figcaption, dd")]
    .filter(e => e.offsetParent && !e.closest(".scroll") && e.scrollWidth > e.clientWidth + 1)
    .map(e => e.textContent)"""
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (800, "light"), (1600, "dark")])
def test_it_fits_and_is_readable(browser: Any, report: Path, width: int, scheme: str) -> None:
    shown = Shown(browser, report, width, scheme)
    assert not shown.problems
    assert shown.page.evaluate(FITS)
    assert shown.page.evaluate(CLIPPED) == []
    assert shown.page.evaluate(CONTRAST) == []  # WCAG AA


def test_it_uses_the_width_of_the_screen(browser: Any, tmp_path: Path) -> None:
    write_report([made_up_sheet(lila.Affine2d())], tmp_path / "r.html")
    shown = Shown(browser, tmp_path / "r.html", 1600)
    learned, ranges = (shown.page.locator(f".part-{name}").bounding_box() for name in ("learned", "ranges"))
    assert learned["y"] == ranges["y"]
    assert ranges["x"] + ranges["width"] > 1500


def test_those_who_do_not_see_it_are_told(browser: Any, report: Path) -> None:
    page = Shown(browser, report).page
    assert page.evaluate("[...document.images].every(image => image.alt && image.naturalWidth > 0)")
    assert page.evaluate("[...document.querySelectorAll('svg')].every(e => e.getAttribute('aria-label'))")
    unnamed = "[...document.querySelectorAll('input, select')].filter(e => !e.labels.length).length"
    assert page.evaluate(unnamed) == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].filter(e => !e.closest('svg')).map(e => e.id)")
    assert len(ids) == len(set(ids))
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(e => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert [page.locator(name).count() for name in ("header", "main", "footer")] == [1, 1, 1]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_a_script_that_is_not_its_own_does_not_run(browser: Any, report: Path, tmp_path: Path) -> None:
    foreign = "<script>document.title = 'changed'</script><img src='x.png' onerror='document.title = 1'></main>"
    (tmp_path / "r.html").write_text(report.read_text().replace("</main>", foreign))
    shown = Shown(browser, tmp_path / "r.html")
    assert shown.page.title() == "lila: runs side by side"
    assert len(shown.problems) >= 2
    assert all("Content Security Policy" in problem or "x.png" in problem for problem in shown.problems)


def test_the_report_of_an_experiment_opens(browser: Any, tmp_path: Path) -> None:
    outcome = experiment_outcome("maximum-likelihood")
    write_report(sheets(outcome), tmp_path / "r.html", "maximum-likelihood", experiment_section(outcome))
    shown = Shown(browser, tmp_path / "r.html", 360)
    assert not shown.problems
    assert shown.page.evaluate(FITS)
