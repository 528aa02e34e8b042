"""Our words for those of other loaders, in the errors of calls and attributes that do not exist."""

# Who comes from tf.data, Grain, PyTorch, Hugging Face datasets, Ray Data or WebDataset knows what to do, but
# not what it is called here. A call with right arguments pays for one function call more, and an
# attribute that exists pays nothing.

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Final, NamedTuple, TypeVar, cast

from . import InvalidType

C = TypeVar("C", bound=Callable[..., Any])

BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class OurWord(NamedTuple):
    """What an argument of another loader is here.

    Args:
      arguments: those of ours that mean it; a function has one of them.
      elsewhere: what to write where it has none.
    """

    arguments: str
    elsewhere: str = ""


ARGUMENTS: Final = {
    word: ours
    for words, ours in {
        "num_workers num_parallel_calls num_parallel num_proc num_processes num_threads n_jobs "
        "max_workers concurrency parallelism worker_count": OurWord(
            "workers", "maps and partitions have workers: .map(fn, workers=n)"
        ),
        "use_threads use_processes multiprocessing backend": OurWord("executor"),
        "shuffle_buffer_size shuffle_size local_shuffle_buffer_size window_size bufsize": OurWord(
            "window buffer_size", "add .shuffle(seed, window=n)"
        ),
        "buffer_size": OurWord("window", "add .prefetch(n)"),
        "prefetch_factor prefetch_batches prefetch_size prefetch prefetch_buffer_size num_prefetch "
        "maxsize": OurWord("buffer_size", "add .prefetch(n)"),
        "drop_remainder drop_last_batch partial remainder": OurWord(
            "drop_last", "add .batch(n, drop_last=True)"
        ),
        "collate_fn collator data_collator batch_fn collation_fn": OurWord(
            "collate", "add .batch(n, collate=fn)"
        ),
        "padded_shapes padding_values pad_token_id padding_value": OurWord(
            "pad", "add .batch(n, collate=rs.padded())"
        ),
        "batch_size": OurWord("", "add .batch(n)"),
        "size microbatch_size": OurWord("batch_size"),
        "shuffle": OurWord("", "add .shuffle(seed=0)"),
        "random_state rng generator random_seed shuffle_seed": OurWord(
            "seed", "add .shuffle(seed=0)"
        ),
        "reshuffle_each_iteration": OurWord("", "each epoch has an order of its own"),
        "deterministic ordered in_order sloppy": OurWord("", "items always come in the same order"),
        "worker_init_fn initializer": OurWord(
            "", "make what a worker needs when the function is first called there"
        ),
        "persistent_workers": OurWord("", "workers stay until the last epoch of a repeat ends"),
        "multiprocessing_context mp_context start_method": OurWord(
            "executor", 'workers are processes with executor="process"'
        ),
        "pin_memory pin_memory_device": OurWord(
            "", "resumable_torch.device_prefetch copies batches from pinned memory"
        ),
        "sampler batch_sampler": OurWord(
            "", "the order is a part of the pipeline: add .shuffle(seed=0) or .shard(index, count)"
        ),
        "timeout": OurWord(
            "", "a wait for a worker has no limit, and a worker that died is replaced"
        ),
        "map_func map_fn func function transform transformation transforms preprocess_fn": OurWord(
            "fn", "add .map(fn)"
        ),
        "predicate filter_fn filter_func condition cond": OurWord(
            "predicate", "add .filter(predicate)"
        ),
        "scan_func reduce_func": OurWord("fn"),
        "initial_state init initializer_value": OurWord("initial"),
        "num_epochs n_epochs times repeats repeat": OurWord("epochs", "add .repeat(epochs)"),
        "count": OurWord("epochs"),
        "num_items num_elements num_samples limit max_samples total": OurWord(
            "count", "add .take(n)"
        ),
        "num_shards world_size num_replicas shard_count num_nodes": OurWord(
            "count", "add .shard(index, count)"
        ),
        "shard_index shard_id rank process_index": OurWord("index", "add .shard(index, count)"),
        "shard shard_options sharding": OurWord("", "add .shard(index, count)"),
        "num_partitions": OurWord("count"),
        "cycle_length num_interleave interleave_size": OurWord("cycle_length"),
        "iter_buffer_size make_iter_buffer_size num_make_iter_threads": OurWord(
            "", "add .prefetch(n) to what fn returns"
        ),
        "num_skip skip start_index offset": OurWord("count", "add .skip(n)"),
        "stride step hop": OurWord("shift"),
        "probabilities probs proportions ratios selection_map": OurWord("weights"),
        "stopping_strategy stop_on_empty_dataset stop_on_empty longest": OurWord("stop"),
        "ignore_errors handler errors_handler": OurWord(
            "on_error", 'maps have on_error="skip" to leave out items that fail'
        ),
        "max_length max_len max_seq_length max_seq_len sequence_length seq_length seq_len block_size "
        "length_struct": OurWord("length"),
        "bucket_boundaries element_length_func length_fn": OurWord("boundaries length"),
        "path file filename filenames file_pattern file_paths input_paths data_files data_dir root "
        "local remote url urls uri folder": OurWord("paths folder uri"),
        "compression compression_type": OurWord(
            "", "the names of files tell how they are compressed"
        ),
        "streaming": OurWord("", "files are read as their items are needed"),
        "cache_dir cache_limit local_cache": OurWord(
            "cache", "sources of files have cache=rs.FileCache(folder, max_bytes)"
        ),
        "fs filesystem": OurWord("storage_options"),
        "usecols select_columns column_names fields features_to_keep": OurWord("columns"),
        "sep field_delim": OurWord("delimiter"),
        "max_to_keep keep_last keep save_total_limit num_to_keep keep_n max_checkpoints": OurWord(
            "latest retention", "pass retention=rs.Retention(latest=n)"
        ),
        "keep_period keep_every_n_steps": OurWord(
            "every_steps", "pass rs.Retention(every_steps=n)"
        ),
        "save_interval_steps every_n_train_steps save_steps save_every interval_steps": OurWord(
            "trigger", "pass rs.EverySteps(n)"
        ),
        "directory dirpath checkpoint_dir ckpt_dir save_dir output_dir": OurWord("store path"),
        "async_save enable_async async_checkpointing": OurWord("asynchronous"),
        "callbacks hooks": OurWord("listeners"),
    }.items()
    for word in words.split()
}

METHODS: Final = {
    word: ours
    for words, ours in {
        "unbatched unstack": ".unbatch()",
        "flatten": ".unbatch(), or .flat_map(fn)",
        "cycle loop infinite with_epoch": ".repeat()",
        "collate collate_fn": ".batch(n, collate=fn)",
        "padded_batch": ".batch(n, collate=rs.padded())",
        "bucket_by_sequence_length group_by_window sorted_batch dynamic_batch": ".bucket(length, max_tokens=n)",
        "ragged_batch dense_to_ragged_batch": ".batch(n)",
        "select slice islice": ".skip(first).take(count), or pipeline[[0, 2, 5]] for these items",
        "limit head first": ".take(n)",
        "select_columns remove_columns rename_column rename_columns rename extract_keys to_tuple "
        "map_dict map_tuple with_format set_format with_transform set_transform decode cast "
        "as_numpy add_column transform apply_transform": ".map(fn)",
        "map_with_index enumerate_map": ".enumerate().map(fn)",
        "ignore_errors": '.map(fn, on_error="skip")',
        "compose then through pipe": "fn(pipeline)",
        "prefetch_to_device device_put to_device": ".prefetch(n), and device_prefetch of resumable_torch or resumable_jax",
        "mp_prefetch multiprocess_prefetch": '.map(fn, workers=n, executor="process"), or .partition(...) for several stages',
        "to_iter_dataset as_numpy_iterator iterator make_one_shot_iterator iter iter_batches "
        "iter_rows iter_torch_batches": "iter(pipeline)",
        "next": "next(iter(pipeline))",
        "cardinality size count __cardinality__ num_rows": "len(pipeline), or pipeline.length",
        "dataset source data upstream": "pipeline.stage",
        "from_generator from_iterable": "rs.from_iterable(function)",
        "from_tensor_slices from_tensors from_dict": "rs.from_arrays(arrays)",
        "list_files": "rs.files(paths)",
        "zip_with": "rs.zip(a, b)",
        "concat concatenate extend chain": "rs.concatenate(a, b), or a + b",
        "sample_from_datasets choose_from_datasets interleave_datasets mix random_mix": "rs.mix(a, b, weights=...)",
        "zip": "rs.zip(a, b)",
        "reduce": "functools.reduce(fn, pipeline), or .scan(fn, initial)",
        "split_by_node split_by_worker shard_by distributed": ".shard(index, count)",
        "split_dataset_by_node": ".shard(index, count)",
        "batched": ".batch(n)",
        "window_shuffle shuffle_buffer": ".shuffle(seed, window=n)",
        "seed set_seed": ".shuffle(seed=...), and .random_map(fn, seed=...)",
        "set_epoch": "pipeline.start(epoch)",
        "get_state state_dict stats": "the method of iter(pipeline)",
        "set_state load_state_dict restore": "pipeline.resume(state)",
        "save checkpoint": "rs.Checkpointer(folder, rs.EverySteps(n))",
        "sort": "sorted(pipeline), or .bucket(length, max_tokens=n) for like lengths",
        "unroll unfold sliding_window": ".window(size, shift=n)",
        "persist snapshot": ".cache()",
        "rejection_resample": ".filter(predicate)",
        "train_test_split split": ".take(n) for one part, and .skip(n) for the other",
    }.items()
    for word in words.split()
}

FUNCTIONS: Final = {
    word: ours
    for words, ours in {
        "Dataset MapDataset IterDataset IterableDataset DataPipeline WebDataset": "rs.Pipeline, which rs.from_sequence and "
        "other functions make",
        "DataLoader StatefulDataLoader": "a pipeline, such as rs.from_sequence(data).shuffle(seed=0).batch(64)",
        "from_generator from_iterator from_function": "rs.from_iterable(function)",
        "from_list from_items from_dataset SequenceWrapper MapWrapper": "rs.from_sequence(data)",
        "from_numpy from_tensor_slices from_tensors from_dict from_tensor": "rs.from_arrays(arrays)",
        "from_files list_files glob": "rs.files(paths)",
        "text text_files read_text TextLineDataset": "rs.lines(paths)",
        "json read_json json_lines": "rs.jsonl(paths)",
        "read_csv": "rs.csv(paths)",
        "read_parquet": "rs.parquet(paths)",
        "webdataset wds read_webdataset": "rs.tar(paths)",
        "TFRecordDataset read_tfrecords": "rs.tfrecord(paths)",
        "load_dataset": "rs.from_sequence(data), or rs.parquet(paths)",
        "count": "rs.range(n)",
        "sample_from_datasets choose_from_datasets interleave_datasets weighted sample MultiDataset "
        "MultiNodeWeightedSampler": "rs.mix(a, b, weights=...)",
        "concat chain concatenate_datasets ConcatDataset ChainDataset": "rs.concatenate(a, b)",
        "resume restore": "pipeline.resume(state), or rs.Checkpointer(...).resume(pipeline)",
        "save Saver CheckpointManager CheckpointIterator": "rs.Checkpointer(folder, rs.EverySteps(n))",
        "verify": "the command resumable verify, or rs.testing.check_resumes_everywhere(pipeline)",
    }.items()
    for word in words.split()
}


def with_our_words(called: C) -> C:
    """Let an argument that ``called`` does not have be answered with our word for it.

    Args:
      called: a function without ``**options``, or a class, whose ``__init__`` is changed.
    """
    if isinstance(called, type):
        called.__init__ = with_our_words(called.__init__)  # type: ignore[misc]
        return cast(C, called)

    @wraps(called)
    def answering(*args: Any, **options: Any) -> Any:
        try:
            return called(*args, **options)
        except TypeError:
            if (message := _told(called, options)) is None:
                raise
        raise InvalidType(message)

    return cast(C, answering)


def _told(called: Callable[..., Any], options: dict[str, Any]) -> str | None:
    """What to say of the first of ``options`` that is no argument; None if all of them are."""
    parameters = signature(called).parameters.values()
    ours = [one.name for one in parameters if one.kind in BY_NAME and one.name != "self"]
    name = called.__name__
    if name == "__init__":
        name = called.__qualname__.split(".")[-2]
    for given in options:
        if given not in ours:
            return f"{name}() has no argument {given!r}; {_argument_for(given, ours)}"
    return None


def _argument_for(given: str, ours: list[str]) -> str:
    word = ARGUMENTS.get(given, OurWord(""))
    for known in word.arguments.split():
        if known in ours:
            return f"use {known}="
    if near := get_close_matches(given, ours, 1):
        return f"did you mean {near[0]}=?"
    return word.elsewhere or (f"it has {', '.join(ours)}" if ours else "it has none with a name")


def no_attribute(owner: str, name: str, words: dict[str, str]) -> str:
    """The message of an `AttributeError`, with our word if ``name`` is one of another library.

    Args:
      owner: what has no such attribute, as in ``'Pipeline' object``.
      name: of the attribute.
      words: `METHODS` or `FUNCTIONS`.
    """
    message = f"{owner} has no attribute {name!r}"
    return f"{message}; write {words[name]}" if name in words else message
