"""Who comes from another loader is told what an argument or a method is called here."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import pytest

import resumable as rs
from resumable.errors.foreign_words import words_for

STREAM = rs.from_iterable(lambda: iter(range(9)))


def called(name: str) -> Callable[..., Any]:
    """The method of a pipeline, or the function or class, of this name."""
    return getattr(STREAM, name[1:]) if name[0] == "." else getattr(rs, name)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "given", "use"),
    [
        *((".map", word, "use workers=") for word in ("num_workers", "num_parallel_calls")),
        *((".map", word, "use workers=") for word in ("num_parallel", "num_proc", "num_threads")),
        (".partition", "num_workers", "use workers="),
        (".map", "map_func", "use fn="),
        (".map", "worker_init_fn", "make what a worker needs when the function is first called"),
        (".map", "prefetch_factor", "add .prefetch(n)"),
        (".shuffle", "buffer_size", "use window="),
        (".shuffle", "reshuffle_each_iteration", "each epoch has an order of its own"),
        (".batch", "drop_remainder", "use drop_last="),
        (".batch", "collate_fn", "use collate="),
        (".batch", "shuffle", "add .shuffle(seed=0)"),
        (".batch", "num_workers", "maps and partitions have workers: .map(fn, workers=n)"),
        (".repeat", "count", "use epochs="),
        (".shard", "num_shards", "use count="),
        (".shard", "rank", "use index="),
        (".window", "stride", "use shift="),
        (".pack", "seq_length", "use length="),
        ("mix", "probabilities", "use weights="),
        ("jsonl", "batch_size", "add .batch(n)"),
        ("jsonl", "shuffle", "add .shuffle(seed=0)"),
        ("jsonl", "data_files", "use paths="),
        ("parquet", "num_workers", "maps and partitions have workers"),
        ("from_sequence", "pin_memory", "resumable_torch.device_prefetch copies"),
        ("Checkpointer", "max_to_keep", "use retention="),
        ("Checkpointer", "callbacks", "use listeners="),
        ("Retention", "max_to_keep", "use latest="),
    ],
)
def test_an_argument_of_another_loader_is_answered_with_ours(
    name: str, given: str, use: str
) -> None:
    words = re.escape(f"{name.lstrip('.')}() has no argument {given!r}; {use}")
    with pytest.raises(rs.InvalidType, match=f"^{words}") as caught:
        called(name)(**{given: 2})
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_an_unknown_argument_is_answered_with_the_nearest_or_all_of_ours() -> None:
    pipeline: Any = rs.range(3)
    with pytest.raises(
        TypeError, match=r"map\(\) has no argument 'worker'; did you mean workers=\?"
    ):
        pipeline.map(abs, worker=2)
    with pytest.raises(TypeError, match=r"take\(\) has no argument 'frobs'; it has count$"):
        pipeline.take(3, frobs=2)
    with pytest.raises(
        TypeError, match=r"cache\(\) has no argument 'frobs'; it has none with a name$"
    ):
        pipeline.cache(frobs=2)


def test_other_errors_of_a_call_are_left_as_they_are() -> None:
    pipeline: Any = rs.range(3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'seed'"):
        pipeline.shuffle()

    def broken(part: Any) -> Any:
        return part.map(abs, nothing_like_it=3)

    with pytest.raises(TypeError, match=r"map\(\) has no argument 'nothing_like_it'"):
        pipeline.partition(3, broken)

    def of_the_user(part: Any) -> Any:
        return len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)"):
        pipeline.partition(3, of_the_user)


def test_signatures_are_seen_by_tools_as_they_are_written() -> None:
    found = inspect.signature(rs.Pipeline.map, eval_str=True)
    assert list(found.parameters)[:3] == ["self", "fn", "workers"]
    assert found.parameters["executor"].annotation == str | Executor
    assert list(inspect.signature(rs.Checkpointer).parameters)[:2] == ["store", "trigger"]
    assert pickle.loads(pickle.dumps(rs.jsonl)) is rs.jsonl


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("unbatched", ".unbatch()"),
        ("cycle", ".repeat()"),
        ("collate", ".batch(n, collate=fn)"),
        ("from_generator", "rs.from_iterable(function)"),
        ("select", ".skip(first).take(count), or pipeline[[0, 2, 5]] for these items"),
        ("with_format", ".map(fn)"),
        ("dataset", "pipeline.stage"),
        ("state_dict", "the method of iter(pipeline)"),
    ],
)
def test_a_method_of_another_loader_is_answered_with_ours(name: str, write: str) -> None:
    words = re.escape(f"'Pipeline' object has no attribute {name!r}; write {write}")
    with pytest.raises(AttributeError, match=f"^{words}$") as caught:
        getattr(STREAM, name)
    assert (caught.value.name, caught.value.obj) == (name, STREAM)
    assert not hasattr(STREAM, name)


def test_a_function_of_another_loader_is_answered_with_ours() -> None:
    with pytest.raises(AttributeError, match=r"'DataLoader'; write a pipeline, such as rs\."):
        rs.DataLoader  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'frobs'$"):
        rs.frobs  # noqa: B018
    with pytest.raises(AttributeError, match=r"'Pipeline' object has no attribute 'frobs'$"):
        STREAM.frobs  # type: ignore[attr-defined]  # noqa: B018


def test_no_word_of_others_is_one_of_ours() -> None:
    assert not words_for("methods").keys() & vars(rs.Pipeline).keys()
    assert not words_for("functions").keys() & {*rs.__all__}


def test_the_words_told_are_there() -> None:
    functions = [getattr(rs, name) for name in rs.__all__ if name.islower()]
    methods = [one for one in vars(rs.Pipeline).values() if inspect.isfunction(one)]
    classes = [rs.Checkpointer, rs.Retention, rs.FileCache]
    known = {
        name
        for one in (*functions, *methods, *classes)
        if callable(one)
        for name in inspect.signature(one).parameters
    }
    told = {name for word in words_for("arguments").values() for name in word.arguments.split()}
    assert told <= known
    text = " ".join([*words_for("methods").values(), *words_for("functions").values()])
    assert {*re.findall(r"rs\.(\w+)", text)} <= {*rs.__all__, "testing"}
    assert {*re.findall(r"(?<![\w)])\.(\w+)\(", text)} <= vars(rs.Pipeline).keys()
