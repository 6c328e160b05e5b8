"""What a run learned, in a few lines of text."""

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING

from lila.training.range_table import range_table

if TYPE_CHECKING:
    from lila.training.run import Run

BAR = 24
"""Characters of the longest bar."""
_WIDTH = 100  # characters of a line of text


def summary_of(run: "Run") -> str:
    """Return the learned ranges as a table, the evidence by its terms, scores, baselines, and what is doubtful."""
    lines = [f"{run.settings.method}, {len(run.history)} epochs", *_range_lines(run)]
    lines += [f"  {coupling.text()}" for coupling in run.model.augmentation.couplings()]
    e = run.evidence
    lines.append(f"  {e.per_example(run.examples)}")
    lines.append(
        f"    for all {run.examples:,}: {e.value:.1f} = {e.log_likelihood:.1f} log-likelihood "
        f"{e.weight_penalty:+.1f} weight penalty {e.occam_factor:+.1f} Occam factor"
    )
    if run.test is not None:
        lines.append(f"  test {_listed_scores(run.test)}")
    for name, worth in run.baselines.by_name().items():
        on_test = "" if worth.test is None else f", test {_listed_scores(worth.test)}"
        lines.append(f"  {name}: evidence {worth.evidence:.1f} nats{on_test}")
    if run.verdict.doubts:
        lines += ["", fill(run.verdict.text(), _WIDTH, initial_indent="  ", subsequent_indent="  ")]
    return "\n".join(lines)


def _range_lines(run: "Run") -> list[str]:
    """Return the table of the ranges: a column for each thing that is known of them, and what it means."""
    table = range_table(run.model.augmentation, run.shape, run.history, run.range_errors)
    columns = [["", *(row.name for row in table.rows)], ["range", *(row.text for row in table.rows)]]
    for title, texts in (("error", [r.error for r in table.rows]), ("last epochs", [r.spread for r in table.rows])):
        if table.rows and None not in texts:
            columns.append([title, *map(str, texts)])
    columns.append(["", *(bar(row.share) for row in table.rows)])
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True) if table.rows else ()
    lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
    notes = [fill(f"({note})", _WIDTH, initial_indent="  ", subsequent_indent="   ") for note in table.notes]
    return [f"  {line}".rstrip() for line in lines] + notes


def _listed_scores(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in scores.items())


def bar(share: float) -> str:
    """Return a share of 1 as a bar of blocks, to an eighth of a block."""
    eighths = round(share * BAR * 8)
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
