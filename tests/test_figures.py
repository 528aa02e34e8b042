"""Each figure about speed, size or time on a page is in the published results, or says where it is from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # where the folder `benchmarks` is found; it is not installed

from benchmarks.pages import OTHERS, PASSAGE, main, other_figures, pages, written  # noqa: E402
from benchmarks.passages import PASSAGES  # noqa: E402
from benchmarks.published import RESULTS, Published, Ratios  # noqa: E402
from benchmarks.report import read_json, write_json, write_markdown  # noqa: E402

PAGES = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in pages()]


def test_the_passages_with_figures_are_those_of_the_published_results(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = main(["--check"])
    assert not changed, f"`python -m benchmarks.pages` changes {capsys.readouterr().out}"


def test_every_passage_stands_on_a_page() -> None:
    names = {match["name"] for path in pages() for match in PASSAGE.finditer(path.read_text())}
    assert names == set(PASSAGES)


def test_each_other_figure_says_where_it_is_from() -> None:
    known = json.loads(OTHERS.read_text())
    figures = {path.relative_to(ROOT).as_posix(): other_figures(path) for path in pages()}
    listed = {
        page: {figure for each in sources.values() for figure in each}
        for page, sources in known.items()
    }
    measured = {
        page: {
            figure for source, each in sources.items() if source.endswith(".py") for figure in each
        }
        for page, sources in known.items()
    }
    for page in figures.keys() | listed.keys():
        new = figures.get(page, set()) - listed.get(page, set())
        gone = measured.get(page, set()) - figures.get(page, set())
        assert not new, (
            f"{page} has {new}: put them into a passage of benchmarks/passages.py, or into "
            f"{OTHERS.relative_to(ROOT)} with where they are from"
        )
        assert not gone, f"{page} has no longer {gone}: take them out of {OTHERS.relative_to(ROOT)}"
    scripts = {source for sources in known.values() for source in sources if source.endswith(".py")}
    assert [script for script in scripts if not (ROOT / script).exists()] == []


def test_a_page_that_someone_has_edited_is_written_anew(tmp_path: Path) -> None:
    found = Published()
    inline = "It is <!-- figures: two-processes -->9<!-- end --> times as fast."
    assert written(inline, found) == inline.replace("9", PASSAGES["two-processes"](found))
    block = "<!-- figures: token-file -->\nfast\n<!-- end -->"
    once = written(block, found)
    assert "fast" not in once
    assert written(once, found) == once
    with pytest.raises(KeyError, match="no-such"):
        written("<!-- figures: no-such --><!-- end -->", found)


def test_figures_are_found_in_prose_and_not_in_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.pages.ROOT", tmp_path)
    page = tmp_path / "README.md"
    page.write_text(
        "It takes 1.5 ms, 3 to 4 s and 20 %, `5 ms`, 3 stages, "
        "<!-- figures: tar -->7 µs<!-- end -->.\n\n```console\n8 ms\n```\n"
    )
    assert other_figures(page) == {"1.5 ms", "3 to 4 s", "20 %"}
    page.rename(tmp_path / "other.md")
    assert other_figures(tmp_path / "other.md") == {"1.5 ms"}


def test_the_published_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    runs = read_json(RESULTS)
    write_json(tmp_path / "results.json", runs)
    write_markdown(tmp_path / "results.md", runs)
    assert (tmp_path / "results.json").read_text() == RESULTS.read_text()
    assert (tmp_path / "results.md").read_text() == RESULTS.with_suffix(".md").read_text()


def test_the_better_configuration_of_each_loader_counts() -> None:
    race = Ratios(
        {"bare": [1.0, 2.0, 1.0], "X": [3.0, 6.0, 3.0], "X, lean": [2.0, 4.0, 2.0], "Y": [1.0, 1.0, 1.0]}
    )  # fmt: skip
    assert race.best() == {"Y": (1, 0.75, 1), "X": (2, 2, 2)}
