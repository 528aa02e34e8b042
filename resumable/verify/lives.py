"""What one of several ranks does in a process of its own: resume, save its parts, and be killed."""

# A life that is killed returns nothing, so each leaves an account of itself in a file before it ends.

from __future__ import annotations

import os
import pickle
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, final

from ..checkpoint.checkpointer import Checkpointer
from ..core.ended import ended_runs_expected
from ..core.regular_files import replacing
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..triggers import EverySteps
from .runs import Digests, PipelineRun, Watch, draw
from .work import Work


class Lived(NamedTuple):
    """The account of a life.

    Attributes:
      first: the number of items before it.
      run: of the items that it delivered.
      refused: why it could not begin; None if it has begun.
    """

    first: int = 0
    run: PipelineRun | None = None
    refused: str | None = None


@final
@dataclass(frozen=True)
class Life(Work):
    """A rank that goes on from the newest step that all ranks have saved in ``folder``.

    Attributes:
      folder: of the checkpoints.
      rank: which one this is.
      ranks: how many save together.
      every: number of items between two saves.
      until: the number of items after which it is killed, counted from the very first; None to run to
        the end.
      limit: the number of items at which a run without a kill ends; None for the end of the pipeline.
      account: the file in which it leaves a `Lived`.
      expected: digests of all items of this rank, to compare them with; None to keep them in ``keep``.
      keep: a new file for the digests; None to keep none.
    """

    folder: str
    rank: int
    ranks: int
    every: int
    until: int | None
    limit: int | None
    account: str
    expected: Digests | None = None
    keep: str | None = None

    def do(self, stage: Stage[Any], watch: Watch) -> None:
        trigger = EverySteps(self.every)
        checkpointer = Checkpointer(
            self.folder, trigger, rank=self.rank, ranks=self.ranks, save_at_end=False
        )
        try:
            loop = checkpointer.resume(Pipeline(stage))
        except Exception as error:
            self._tell(Lived(refused=f"{error}"))
            return
        first, end = loop.step, self.limit if self.until is None else self.until
        most = None if end is None else max(end - first, 0)
        expected = self.expected and self.expected.after(first)
        with ended_runs_expected():
            run = draw(loop, most, watch, expected=expected, keep=self.keep, first=first)
        self._tell(Lived(first, run))
        if self.until is not None:
            _be_killed()
        checkpointer.close()

    def _tell(self, account: Lived) -> None:
        with replacing(self.account, ".part") as file:
            pickle.dump(account, file)


def lived_in(life: Life) -> Lived | None:
    """The account that ``life`` has left; None if there is none."""
    account = Path(life.account)
    if not account.exists():
        return None
    lived: Lived = pickle.loads(account.read_bytes())
    return lived


def _be_killed() -> NoReturn:
    """End this process at once, without anything that Python does at its end."""
    if hasattr(signal, "SIGKILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)
