"""Reports: everything is in one file, nothing comes from outside, and a real browser shows it as it should be."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import lila
from lila.cli import main
from lila.reproduce.engine.experiment import Scale
from lila.reproduce.engine.output import Outcome
from lila.reproduce.engine.sheets import experiment_section, sheets
from lila.reproduce.paper import PAPER_EXPERIMENTS
from lila.results.report import Sheet, sheet_of_folder, write_report
from lila.results.report.sheet import command
from lila.training.description import read_description, read_task
from lila.training.verdict import NO_DOUBT
from made_up import made_up

CHROMIUM = next((path for path in map(Path, ("/usr/bin/chromium", "/usr/bin/chromium-browser")) if path.exists()), None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One run that learns ranges by the evidence, one by Augerino, one that has none."""
    folder = tmp_path_factory.mktemp("runs")
    options = [
        "--transform",
        "partially-rotated",
        "--epochs",
        "4",
        "--subset",
        "100",
        "--samples",
        "2",
        "--burn-in",
        "1",
        "--progress",
        "silent",
        "--no-baseline",
    ]
    made = []
    for method in ("lila", "augerino", "non-invariant"):
        made.append(folder / method)
        arguments = ["train", "digits", *options, "--method", method, "--out", str(made[-1])]
        assert main(arguments) == 0
    return made


@pytest.fixture(scope="module")
def report(runs: list[Path]) -> Path:
    """A report on all of them."""
    path = runs[0].parent / "report.html"
    assert main(["report", *map(str, runs), "--out", str(path)]) == 0
    return path


def turned(sheet: Sheet, degrees: float) -> Sheet:
    """The same run, had it learned a rotation."""
    augmentation = lila.Affine2d(init=[0, 0, degrees * torch.pi / 180, 0, 0, 0])
    return replace(sheet, augmentation=augmentation, verdict=NO_DOUBT)


def test_the_sentence_says_what_was_learned(runs: list[Path]) -> None:
    by_evidence, by_loss, plain = map(sheet_of_folder, runs)
    learned = "By the evidence, what leaves the label unchanged is rotation by ±87.0° and nothing else."
    assert turned(by_evidence, 87).sentence() == learned
    assert turned(by_evidence, 0).sentence() == "By the evidence, what leaves the label unchanged is nothing."
    assert (
        turned(by_loss, 87).sentence().startswith("The training loss ended with rotation by ±87.0° and nothing else;")
    )
    several = replace(
        by_evidence, verdict=NO_DOUBT, augmentation=lila.Affine2d(init=[0.03, 0.0, 0.5, 0.001, 0.0, 0.03])
    )
    for word in ("x-translation by", "rotation by", "shear by", "and nothing else"):
        assert word in several.sentence()
    assert "scale" not in several.sentence()
    assert "it has no ranges" in replace(plain, verdict=NO_DOUBT).sentence()


def test_it_holds_what_a_reader_needs(report: Path, runs: list[Path]) -> None:
    text = html.unescape(report.read_text())
    sheet = sheet_of_folder(runs[0])
    for part in (*sheet.readable.values(), "±90.0°", f"{sheet.evidence['value']:,.1f}", f"{torch.__version__}"):
        assert part in text, part
    assert sheet.scores is not None
    assert f"{sheet.scores['accuracy']:.4g}" in text
    assert text.count('role="img"') == 3 + 4 + 2  # evidence of each; flow of two; trajectories of two


def test_the_command_trains_the_same_run_again(runs: list[Path], tmp_path: Path) -> None:
    sheet = sheet_of_folder(runs[0])
    assert sheet.again is not None
    assert main([*sheet.again.split()[1:], "--out", str(tmp_path / "again"), "--progress", "silent"]) == 0
    again = sheet_of_folder(tmp_path / "again")
    assert again.again == sheet.again
    assert "--no-baseline" in sheet.again
    assert again.evidence == pytest.approx(sheet.evidence, rel=1e-5)
    assert again.settings == sheet.settings


def test_the_command_names_everything_that_a_preset_would_choose(runs: list[Path]) -> None:
    task, run = read_task(runs[0], read_description(runs[0])), lila.load(runs[0])
    all_images = replace(
        task, recipe=replace(task.recipe, subset=None, size=(8, 9)), data_dir="/my data", examples=(5000, 1)
    )
    told = command(all_images, replace(run.settings, memory="4 GiB", passes="probed", gradient_examples=30))
    for part in ("--subset 5000", "--gradient-examples 30", "--size 8x9", "--data-dir '/my data'", "--memory '4 GiB'"):
        assert part in told
    assert "None" not in told
    assert "--no-baseline" not in told
    assert command(task, run.settings, baseline=False).endswith(" --no-baseline")
    assert "--no-baseline" not in command(task, replace(run.settings, method="non-invariant"), baseline=False)


def test_nothing_comes_from_outside(report: Path) -> None:
    text = report.read_text()
    sources = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\'>\s)]+)', text)
    assert sources
    for source in sources:
        assert source.startswith(("data:", "#")), source
    assert "@import" not in text


def test_what_a_user_named_is_text_and_not_markup(runs: list[Path], tmp_path: Path) -> None:
    settings = {"method": "lila", "data": "<b>lila</b>"}
    sheet = replace(sheet_of_folder(runs[0]), title="<script>alert(1)</script>", settings=settings)
    write_report([sheet, sheet], tmp_path / "r.html", title="<i>")
    text = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in text
    assert "<b>lila" not in text
    assert "<title>&lt;i&gt;</title>" in text


def test_a_run_whose_data_has_gone_is_shown_without_images(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> Any:
        raise lila.DataError("it is not there")

    monkeypatch.setattr("lila.training.description.read_source", gone)
    write_report([sheet_of_folder(runs[0])], tmp_path / "r.html")
    assert "Move through" not in (tmp_path / "r.html").read_text()


def test_a_run_made_in_python_is_shown(tmp_path: Path) -> None:
    x = torch.randn(20, 2)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    run = lila.fit(net, (x, (x[:, 0] > 0).long()), lila.Rotation2d(), epochs=3, burn_in=1, progress="silent")
    run.save(tmp_path / "run")
    write_report([sheet_of_folder(tmp_path / "run")], tmp_path / "r.html")
    assert "rotation" in (tmp_path / "r.html").read_text()


def test_a_folder_that_is_no_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "r.html")]) == 7
    assert f"There is no run in {tmp_path}" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_the_report_of_an_experiment(tmp_path: Path) -> None:
    outcome = experiment_outcome("augerino-strength")
    shown = sheets(outcome)
    assert [sheet.title for sheet in shown] == ["lila", "Augerino, 0.01", "Augerino, 0.1", "Augerino, 1.0"]
    write_report(shown, tmp_path / "r.html", "augerino-strength", experiment_section(outcome))
    text = (tmp_path / "r.html").read_text()
    assert html.escape(outcome.experiment.claim, quote=True).replace("&#x27;", "&#39;") in text
    assert outcome.command in text


def experiment_outcome(name: str) -> Outcome:
    experiment = PAPER_EXPERIMENTS[name]
    jobs = experiment.jobs(Scale.SMALL, 1)
    made = {"seconds": 60.0, "threads": 1, "machine": "x86_64", "device": "cpu"}
    made |= {"torch": "2", "lila": "0", "python": "3"}
    contents = {
        cell: {"work": job.work, "arguments": job.arguments, "made": made, "result": made_up(job)}
        for cell, job in jobs.items()
    }
    results = {cell: made_up(job) for cell, job in jobs.items()}
    summary = experiment.summarise(results, Scale.SMALL)
    return Outcome(experiment, Scale.SMALL, 1, contents=contents, summary=summary)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    quiet += ["--disable-quic", "--disable-component-update"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=quiet)
        yield launched
        launched.close()


class Shown:
    """A page in the browser, with what went wrong while it was opened."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, scheme: str = "light") -> None:
        self.problems: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("requestfailed", lambda request: self.problems.append(request.url))
        self.page.goto(path.as_uri())

    def picture(self) -> bytes:
        """What the window of the first slider shows."""
        return self.page.locator(".window").first.screenshot()


def test_the_slider_moves_the_picture(browser: Any, runs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    write_report([turned(sheet_of_folder(runs[0]), 90)], path)
    shown = Shown(browser, path)
    slider, output = shown.page.locator("input[type=range]"), shown.page.locator("output")
    assert output.inner_text() == "as it is"
    seen = [shown.picture()]
    for _ in range(3):
        slider.press("ArrowRight")
        seen.append(shown.picture())
    assert output.inner_text() == "+0.3 of the range"
    assert len(set(seen)) == 4
    slider.press("Home")
    assert output.inner_text() == "-1.0 of the range"
    shown.page.locator("select").select_option(label="everything at once: random draws")
    assert output.inner_text() == "draw 1 of 21"
    assert shown.picture() not in seen
    shown.page.locator("select").select_option(label="x-translation, ±0.00 px")
    still = shown.picture()
    slider.press("End")
    assert shown.picture() == still  # a range of zero moves nothing
    assert not shown.problems


@pytest.mark.parametrize("width", [360, 800, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_readable(browser: Any, report: Path, width: int, scheme: str) -> None:
    shown = Shown(browser, report, width, scheme)
    assert not shown.problems
    assert shown.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    clipped = """[...document.querySelectorAll("h1, h2, h3, p, td, th, caption, summary, label, option, figcaption")]
        .filter(e => e.offsetParent && !e.closest(".scroll") && e.scrollWidth > e.clientWidth + 1)
        .map(e => e.textContent)"""
    assert shown.page.evaluate(clipped) == []
    contrast = """(() => {
        const light = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const ground = light(getComputedStyle(document.body).backgroundColor);
        return Math.min(...[...document.querySelectorAll("h1, p, td, th, figcaption, svg")].map(e => {
            const ink = light(getComputedStyle(e).color);
            return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
        }));
    })()"""
    assert shown.page.evaluate(contrast) > 4.5  # WCAG AA


def test_every_picture_has_a_text(browser: Any, report: Path) -> None:
    shown = Shown(browser, report)
    assert shown.page.evaluate("[...document.images].every(image => image.alt && image.naturalWidth > 0)")
    assert shown.page.evaluate("[...document.querySelectorAll('svg')].every(e => e.getAttribute('aria-label'))")


def test_the_report_of_a_large_experiment_shows_some_runs_and_says_so(tmp_path: Path) -> None:
    outcome = experiment_outcome("accuracy")
    shown = sheets(outcome)
    assert len(shown) == 12
    assert all("lila" in sheet.title for sheet in shown)
    write_report(shown[:2], tmp_path / "r.html", "accuracy", experiment_section(outcome))
    assert f"2 of its {len(outcome.contents)} runs, all with seed 0." in (tmp_path / "r.html").read_text()


def test_the_report_of_an_experiment_opens(browser: Any, tmp_path: Path) -> None:
    outcome = experiment_outcome("maximum-likelihood")
    write_report(sheets(outcome), tmp_path / "r.html", "maximum-likelihood", experiment_section(outcome))
    shown = Shown(browser, tmp_path / "r.html", 360)
    assert not shown.problems
    assert shown.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
