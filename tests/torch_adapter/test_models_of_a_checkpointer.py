"""The program of the page on savers, whose listener saves the model by `dcp.save` on all ranks, survives kills."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.pages import CAPTION, DOCS, blocks
from torch_adapter.processes import start

pytest.importorskip("torch", reason="torch is not installed")

RANKS = 2
LINE = re.compile(r"^rank (\d), step (\d+): (\S+)$", re.MULTILINE)
DIES = "def die(): os.kill(os.getpid(), signal.SIGKILL)"
BETWEEN_SAVES = f"""
{DIES}
def printed(text, **options):
    print(text, **options)
    "step 17:" in text and die()
train_dcp.print = printed
"""
IN_A_SAVE = f"""
{DIES}
save = train_dcp.SavesModel.before_save
def before_save(self, step):
    save(self, step)
    step == 20 and die()
train_dcp.SavesModel.before_save = before_save
"""
PROGRAM = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
import train_dcp, torch.distributed as dist
{change}
dist.init_process_group("gloo", init_method="file://{folder}/{life}", rank={rank}, world_size={ranks})
train_dcp.train(30)
dist.destroy_process_group()
"""


def run(folder: Path, life: str, change: str = "") -> dict[tuple[str, int], str]:
    """The loss of each step of each rank, in one life of the program in ``folder``."""
    logs = [folder / f"{life}-{rank}.log" for rank in range(RANKS)]
    begun = []
    for rank, path in enumerate(logs):
        code = PROGRAM.format(change=change, folder=folder, life=life, rank=rank, ranks=RANKS)
        with path.open("w") as log:
            begun.append(
                start(code, log, preloaded=("torch", "torch.distributed.fsdp"), folder=folder)
            )
    try:
        statuses = [process.wait(300) for process in begun]
    finally:
        for process in begun:
            process.kill()
            process.stdin.close()
    said = "\n".join(path.read_text() for path in logs)
    assert any(statuses) == bool(change), said
    return {(rank, int(step)): loss for rank, step, loss in LINE.findall(said)}


def written(folder: Path) -> Path:
    (text,) = [
        text[found.end() :]
        for _, _, text in blocks(DOCS / "frameworks/pytorch-savers.md")
        if (found := CAPTION.match(text)) and found[1] == "train_dcp.py"
    ]
    (folder / "train_dcp.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], str]:
    found = run(written(tmp_path_factory.mktemp("whole")), "life")
    assert len(found) == 30 * RANKS
    return found


@pytest.mark.parametrize("change", [BETWEEN_SAVES, IN_A_SAVE], ids=["between saves", "in a save"])
def test_a_killed_run_resumes_with_the_model_of_the_checkpoint(
    tmp_path: Path, expected: dict[tuple[str, int], str], change: str
) -> None:
    folder = written(tmp_path)
    first, second = run(folder, "first", change), run(folder, "second")
    assert min(step for _, step in second) == 11
    assert first | second == expected
    assert {path.name for path in (folder / "run").iterdir()} == {
        "input", "model-10", "model-20", "model-30",
    }  # fmt: skip
