"""What users of torch, Lightning, Fabric and Accelerate do by habit is exact, or refused before the first wrong batch.

`docs/habits.md` lists these habits.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")

from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from resumable_torch import PipelineDataset, ResumableDataLoader, device_prefetch  # noqa: E402
from resumable_torch.lightning import ResumeInput  # noqa: E402
from support.tiers import thinned  # noqa: E402
from torch_adapter.data import Rows, loader_of, row  # noqa: E402

import resumable as rs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

KINDS = [(kind, workers) for kind in ("map", "stream", "partition") for workers in (0, 2)]
every_kind = pytest.mark.parametrize(("kind", "workers"), KINDS)


def loader(kind: str, workers: int = 0) -> Any:
    if kind != "partition":
        return loader_of(kind, num_workers=workers)
    pipeline = (
        rs.range(12)
        .shuffle(1)
        .partition(2, lambda part: part.map(row).batch(3, collate=torch.stack))
    )
    return ResumableDataLoader(PipelineDataset(pipeline), None, num_workers=workers)


def rows(batches: Any) -> list[Any]:
    return [batch[:, 0].tolist() for batch in batches]


def epoch_of(kind: str, number: int) -> list[Any]:
    fresh = loader(kind)
    fresh.set_epoch(number)
    return rows(fresh)


def saved_after(kind: str, epoch: int, batches: int) -> dict[str, bytes]:
    stopped = loader(kind)
    stopped.set_epoch(epoch)
    iterator = iter(stopped)
    for _ in range(batches):
        next(iterator)
    state: dict[str, bytes] = stopped.state_dict()
    return state


@every_kind
def test_numbers_of_a_loop_that_counts_from_0_do_not_lead_back(kind: str, workers: int) -> None:
    batches = loader(kind, workers)
    batches.load_state_dict(saved_after(kind, 1, 2))
    got = []
    for number in range(2):
        batches.sampler.set_epoch(number)  # as trainers and the users of a DistributedSampler do
        got.append(rows(batches))
    assert got == [epoch_of(kind, 1)[2:], epoch_of(kind, 2)]
    batches.load_state_dict(saved_after(kind, 1, 2))
    with pytest.raises(rs.InvalidArgument, match=r"begin the loop over epochs at loader\.epoch"):
        batches.set_epoch(0)
    batches.count_epochs_from(0)
    batches.set_epoch(0)
    assert rows(batches) == epoch_of(kind, 1)[2:]


@every_kind
def test_a_look_at_the_first_batch_costs_nothing(kind: str, workers: int) -> None:
    batches, first = loader(kind, workers), epoch_of(kind, 0)
    assert rows([batches.peek(), batches.peek()]) == [first[0]] * 2
    assert rows([next(iter(batches))]) == first[:1]
    assert [rows(batches) for _ in range(batches.epoch, 2)] == [first, epoch_of(kind, 1)]
    batches.load_state_dict(saved_after(kind, 0, 2))
    assert rows([batches.peek(), next(iter(batches))]) == [first[2]] * 2
    assert [rows(batches) for _ in range(batches.epoch, 2)] == [first[2:], epoch_of(kind, 1)]


@every_kind
def test_a_batch_that_is_looked_at_again_and_again_is_refused(kind: str, workers: int) -> None:
    batches = loader(kind, workers)
    assert rows(next(iter(batches)) for _ in range(2)) == epoch_of(kind, 0)[:1] * 2
    with pytest.raises(rs.InvalidArgument, match=r"as by next\(iter\(loader\)\)"):
        next(iter(batches))


@every_kind
def test_an_epoch_that_was_cut_short_and_saved_is_ended_or_refused(kind: str, workers: int) -> None:
    def cut(batches: Any) -> list[Any]:
        return rows(itertools.islice(batches, 2))

    live = loader(kind, workers)
    cut(live)
    live.state_dict()
    others = (lambda: live.set_epoch(1), lambda: live.sampler.set_epoch(1), lambda: cut(live))
    for another in others:
        with pytest.raises(rs.InvalidArgument, match=r"begin another loop, call end_epoch\(\)"):
            another()
    live.load_state_dict(live.state_dict())
    assert rows(live) == epoch_of(kind, 0)[2:]

    live, expected = loader(kind, workers), [epoch_of(kind, epoch)[:2] for epoch in range(3)]
    assert cut(live) == expected[0]
    live.end_epoch()
    state = live.state_dict()
    assert [cut(live), cut(live)] == expected[1:]
    again = loader(kind, 2 - workers)
    again.load_state_dict(state)
    assert [cut(again), cut(again)] == expected[1:]


@every_kind
def test_a_loop_that_was_overtaken_says_so(kind: str, workers: int) -> None:
    batches = loader(kind, workers)
    outer = iter(batches)
    next(outer), next(outer)
    assert rows(batches) == epoch_of(kind, 1)  # as for the accuracy on the training data
    with pytest.raises(rs.InvalidArgument, match="overtaken by another loop"):
        next(outer)
    inner = iter(batches)
    next(inner)
    state = inner.state_dict()
    assert state == batches.state_dict() == saved_after(kind, 2, 1)
    batches.load_state_dict(state)
    for late in (lambda: next(inner), inner.state_dict):
        with pytest.raises(rs.InvalidArgument, match="overtaken by load_state_dict"):
            late()


@every_kind
def test_a_saved_loader_keeps_its_place(kind: str, workers: int) -> None:
    batches = loader(kind, workers)
    iterator = iter(batches)
    next(iterator), next(iterator)
    file = io.BytesIO()
    torch.save(batches, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert again.state_dict() == batches.state_dict()
    assert rows(again) == rows(iterator) == epoch_of(kind, 0)[2:]


@every_kind
def test_what_would_deliver_the_batches_of_a_loader_uncounted_is_refused(
    kind: str, workers: int
) -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    with pytest.raises(rs.InvalidArgument, match="skip_first_batches of Accelerate"):
        list(accelerate.skip_first_batches(loader(kind, workers), 2))
    for one in (loader(kind, workers), device_prefetch(loader(kind, workers), "cpu")):
        with pytest.raises(rs.InvalidArgument, match=r"itertools\.cycle would repeat"):
            list(itertools.islice(itertools.cycle(one), 20))
    chained = itertools.chain.from_iterable(itertools.repeat(loader(kind, workers)))
    first, second = epoch_of(kind, 0), epoch_of(kind, 1)
    assert rows(itertools.islice(chained, len(first) * 2)) == first + second


class Module(lightning.pytorch.LightningModule):  # type: ignore[misc, name-defined]
    """Records what each step sees, and saves after the step ``stop``."""

    def __init__(self, stop: int = 0, path: Path | None = None, schedule: bool = False) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen: list[Any] = []
        self.stop, self.path, self.schedule = stop, path, schedule

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        leaves = torch.utils._pytree.tree_leaves(batch)
        self.seen.append(rows(leaves))
        return sum(self.layer(leaf.float() / 1000).sum() for leaf in leaves)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if len(self.seen) == self.stop:
            self.trainer.save_checkpoint(self.path)
            raise KeyboardInterrupt

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        if not self.schedule:
            return optimizer
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=int(steps))
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def fit(
    module: Module, batches: Any, folder: Path, resumed: Any = None, **options: Any
) -> list[Any]:
    """The batches of a fit of three epochs."""
    options = {"max_epochs": 3, "callbacks": [ResumeInput()], **options}
    trainer = lightning.pytorch.Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=any(isinstance(one, ModelCheckpoint) for one in options["callbacks"]),
        **options,
    )
    with suppress(KeyboardInterrupt, SystemExit):
        trainer.fit(module, batches, ckpt_path=resumed, weights_only=True)
    return module.seen


def saved_with(
    epochs: int, batches: Any, folder: Path, resumed: Any = None, *, callback: bool
) -> list[Any]:
    """The batches of a fit that saves at the end of each epoch."""
    saving = ModelCheckpoint(folder, "{epoch}", save_top_k=-1)
    callbacks = [saving, ResumeInput()] if callback else [saving]
    return fit(Module(), batches, folder, resumed, max_epochs=epochs, callbacks=callbacks)


def two(long: str, short: str = "map", workers: int = 0) -> Any:
    """Two loaders in a dict, as for semi-supervised training; the shorter one cycles."""
    few: Any = ResumableDataLoader(Rows(6), 3, shuffle=True, seed=2, num_workers=workers)
    if short != "map":
        pipeline = rs.range(6).shuffle(2).map(row).filter(lambda item: True)
        few = ResumableDataLoader(PipelineDataset(pipeline), 3, num_workers=workers)
    return {"few": few, "many": loader(long, workers)}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("long", "short"), [("map", "map"), ("stream", "map"), ("stream", "stream")]
)
def test_two_loaders_in_a_dict_resume_after_every_step(
    long: str, short: str, workers: int, tmp_path: Path
) -> None:
    whole = fit(Module(), two(long, short, workers), tmp_path)
    ends = range(len(whole) // 3, len(whole), len(whole) // 3)
    few = thinned(range(1, len(whole)), 3, (long, short, workers))
    for stop in sorted({ends[0], *([] if workers else few)}):
        stopped = Module(stop, tmp_path / f"{stop}.ckpt")
        fit(stopped, two(long, short, workers), tmp_path)
        rest = fit(Module(), two(long, short), tmp_path, stopped.path)
        assert stopped.seen + rest == whole, stop


def test_two_loaders_in_a_dict_resume_after_every_epoch_or_are_refused(tmp_path: Path) -> None:
    whole = saved_with(3, two("map"), tmp_path / "whole", callback=True)
    for epoch in range(2):
        resumed = tmp_path / "whole" / f"epoch={epoch}.ckpt"
        rest = saved_with(3, two("map"), tmp_path / "rest", resumed, callback=True)
        assert rest == whole[(epoch + 1) * len(whole) // 3 :]
    with pytest.raises(rs.InvalidArgument, match="the loop before was left"):
        saved_with(3, two("map"), tmp_path / "alone", callback=False)


@every_kind
def test_a_second_fit_over_a_loader_has_batches_of_its_own(
    kind: str, workers: int, tmp_path: Path
) -> None:
    batches = loader(kind, workers)
    seen = [fit(Module(), batches, tmp_path, max_epochs=1) for _ in range(2)]
    assert seen == [[[one] for one in epoch_of(kind, epoch)] for epoch in range(2)]


@every_kind
def test_a_fit_continues_where_the_user_has_put_the_loader(
    kind: str, workers: int, tmp_path: Path
) -> None:
    batches = loader(kind, workers)
    batches.load_state_dict(saved_after(kind, 1, 2))
    seen = fit(Module(), batches, tmp_path, max_epochs=2)
    assert [one for (one,) in seen][: len(epoch_of(kind, 1)) - 2] == epoch_of(kind, 1)[2:]
    assert [one for (one,) in seen][-len(epoch_of(kind, 2)) :] == epoch_of(kind, 2)


@pytest.mark.parametrize(("kind", "workers"), [case for case in KINDS if case[0] != "stream"])
def test_a_schedule_that_counts_the_steps_costs_no_batch(
    kind: str, workers: int, tmp_path: Path
) -> None:
    def run(stop: int, resumed: Any = None, **options: Any) -> list[Any]:
        module = Module(stop, tmp_path / f"{stop}.ckpt", schedule=True)
        return fit(module, loader(kind, workers), tmp_path, resumed, max_epochs=2, **options)

    whole = run(0)
    for stop in (2, len(whole) - 1):
        assert run(stop) + run(0, tmp_path / f"{stop}.ckpt") == whole
    with pytest.raises(rs.ExternalStateError, match=r"the callback ResumeInput\(\) loads them"):
        run(0, tmp_path / "2.ckpt", callbacks=[])


def test_a_loader_without_a_length_needs_the_callback(tmp_path: Path) -> None:
    with pytest.raises(rs.ExternalStateError, match="the callback ResumeInput"):
        saved_with(2, loader("stream"), tmp_path, callback=False)


@every_kind
def test_fabric_continues_where_the_user_has_put_the_loader(kind: str, workers: int) -> None:
    from lightning.fabric import Fabric

    batches = loader(kind, workers)
    batches.load_state_dict(saved_after(kind, 1, 2))
    wrapped: Any = Fabric(accelerator="cpu", devices=1).setup_dataloaders(batches)
    assert rows(wrapped) == epoch_of(kind, 1)[2:]
    assert rows(wrapped) == epoch_of(kind, 2)
    assert rows([next(iter(wrapped))]) == epoch_of(kind, 3)[:1]  # a look
    iterator: Iterator[Any] = iter(wrapped)
    assert rows([next(iterator), next(iterator)]) == epoch_of(kind, 3)[:2]
    assert batches.state_dict() == saved_after(kind, 3, 2)
    with pytest.raises(rs.InvalidArgument, match=r"begin another loop, call end_epoch\(\)"):
        next(iter(wrapped))
