"""What is checked: a few lines of shell for each step, and the packages that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from environments import Environment


@dataclass(frozen=True)
class Step:
    """Lines of bash in the root of the checkout, the first that fails ends them.

    Args:
      name: one word, with which the step can be run alone.
      title: what is checked.
      environment: its programs come first on the path; none: only bare interpreters are there.
      script: the lines. ``$WORK`` is an empty folder, removed after the step.
    """

    name: str
    title: str
    environment: Environment | None
    script: str


CORE = ("numpy", "msgpack")
TESTING = ("pytest>=8", "pytest-xdist", "hypothesis")
TOOLS = (
    "tqdm", "fsspec", "loky", "psutil", "matplotlib", "orjson", "prometheus-client>=0.20", "rich",
)  # fmt: skip
TYPES = ("mypy==2.4.*", "types-tqdm", "msgpack-types")
PEERS = Path("benchmarks/requirements.txt").read_text().split()
PYTORCH = "torch==2.13.*"  # the newest that has a build without a GPU's libraries

SCHEMAS = ("check-jsonschema", "zizmor")  # for what GitHub reads

LINT = Environment("3.11", "ruff==0.17.*", *TYPES, *CORE, *TESTING, *SCHEMAS)
PLAIN = Environment("3.11", *CORE, *TESTING, *TOOLS)
OLD = Environment("3.10", "numpy==1.26.*", "msgpack", *TESTING, *TOOLS)
REMOTE = Environment("3.11", *CORE, *TESTING, "fsspec", "s3fs", "moto[server]")
FILES = Environment(
    "3.11", "aiohttp", "av", "datasets", "google-crc32c", "moto[server]", "pillow", "obstore>=0.12", "protobuf", "pyarrow", "s3fs",
    "webdataset", "backports.zstd", "lz4", "warcio", "h5py", "zarr", "xarray", *CORE, *TESTING, *TOOLS,
)  # fmt: skip
# No older ones are tested, and pylance has a new major version every month.
LANCE = Environment(
    "3.11", "array-record==0.8.*", "pylance==14.*", "aiohttp", "moto[server]", "s3fs", *CORE, *TESTING, *TOOLS,
)  # fmt: skip
DASK = Environment("3.11", *CORE, *TESTING, "loky", "psutil", "distributed")
RAY = Environment(
    "3.11", "ray[train]==2.60.*", *CORE, *TESTING, *TYPES, "cloudpickle", "loky", "psutil",
)  # fmt: skip
LOADERS = Environment("3.11", *PEERS, "msgpack", "loky", "psutil")
TORCH = Environment(
    "3.11", PYTORCH, "torchdata", "lightning", "transformers", "accelerate", "datasets", "trl", "webdataset",
    "megatron-core", "pillow", *CORE, *TESTING, *TYPES, "tqdm", "fsspec",
)  # fmt: skip
# It needs an older version of datasets than the one that is tested with.
TITAN = Environment("3.11", PYTORCH, "torchtitan==0.3.*", *CORE, *TESTING, *TYPES, "tqdm", "fsspec")
TF_OLD = Environment(
    "3.11", "tensorflow-cpu==2.15.*", "tensorflow-estimator==2.15.0", "google-crc32c",
    "numpy==1.26.*", "msgpack", *TESTING, "tqdm", "fsspec",
)  # fmt: skip
# Keras trains with TensorFlow, JAX or PyTorch.
TF_NEW = Environment(
    "3.11", "tensorflow-cpu==2.21.*", "google-crc32c", "jax==0.10.*", PYTORCH, *CORE, *TESTING, "tqdm", "fsspec",
)  # fmt: skip
# LitData and MosaicML Streaming, which imports torchvision: `tests/formats/of_mosaicml.py` says how.
OTHERS = Environment(
    "3.11", PYTORCH, "litdata==0.2.76", "mosaicml-streaming==0.13.0", "pillow", "pyarrow", "backports.zstd", *CORE, *TESTING, *TOOLS,
)  # fmt: skip
DOCS = Environment("3.11", "sphinx==9.*", "furo", "myst-parser", "sphinx-copybutton", *CORE, *TOOLS)
JAX = Environment(
    "3.11", "jax==0.10.*", "flax", "optax", "orbax-checkpoint>=0.12", "grain", *CORE, *TESTING, *TYPES, "tqdm", "fsspec", "loky",
)  # fmt: skip
BUILD = Environment("3.11", "build", "hatchling")

# In the environment rather than as options, so that the workers of the test runner get it. Few
# examples, since the step is about the versions; the step `deep` tries many.
STRICT = "PYTHONPATH=. PYTHONDEVMODE=1 PYTHONWARNINGS=error RESUMABLE_EXAMPLES=2 python -m pytest"

# Pages, programs, and what is killed: they depend on the versions by what the other tests try, so the
# step `readme` is enough.
ONCE = (
    "bench", "docs", "examples", "verify", "test_architecture.py", "test_benchmarks.py", "cli/test_bench.py", "cli/test_demo.py", "cli/test_target.py",
    "changes/test_killed_scenarios.py", "checkpoint/test_campaigns.py", "checkpoint/test_power_cuts.py",
    "checkpoint/test_power_cuts_between_parts.py", "checkpoint/test_power_cut_mutants.py", "workers/test_campaigns.py",
)  # fmt: skip
# Tests that only read the source and the pages say the same with any version.
OF_TEXT = ("test_figures.py", "test_mutations.py", "test_names.py")
# What holds arrays and shared memory, and starts processes and takes signals.
OF_MEMORY = ("core", "state", "testing", "triggers", "workers")
# The deep tier is two steps, so that neither is alone at the end.
OF_SAVES = ("checkpoint", "cli", "docs", "examples", "formats", "verify", "workers")


def tests(names: tuple[str, ...]) -> str:
    """Files and folders of tests, as arguments of the test runner."""
    return " ".join(f"tests/{name}" for name in names)


def ignored(names: tuple[str, ...]) -> str:
    """The options with which the test runner leaves out files and folders of tests."""
    return " ".join(f"--ignore tests/{name}" for name in names)


# In this order they are begun: what fails soonest first, then the longest, so that no core waits at the end.
STEPS = [
    Step("lint", "lint, types, workflows and forms", LINT, """
ruff format --check .
ruff check .
mypy
MYPYPATH=.ci mypy .ci/*.py
schema() { check-jsonschema --builtin-schema "vendor.$1" "${@:2}"; }
schema github-workflows .github/workflows/*.yml
schema github-issue-forms $(find .github/ISSUE_TEMPLATE -name "*.yml" ! -name config.yml)
schema github-issue-config .github/ISSUE_TEMPLATE/config.yml
schema dependabot .github/dependabot.yml
schema citation-file-format CITATION.cff
zizmor --offline --no-progress --min-severity medium .github
"""),
    Step("deep", "the tests of laws, stages and states with many examples", PLAIN, f"""
PYTHONPATH=. python -m pytest -m deep {ignored(OF_SAVES)}
# The extra `test` has no package for the live table, so elsewhere its tests may skip.
PYTHONPATH=. python -m pytest --require-packages tests/cli/test_top.py
"""),
    Step("deep-saves", "the tests of saves, files, processes and commands with many examples", PLAIN, f"""
# The step `files` tries the damaged files of all formats.
PYTHONPATH=. python -m pytest -m deep {tests(OF_SAVES)} \\
    --ignore tests/formats/test_fuzzed_files.py
"""),
    Step("torch", "PyTorch, torchdata, Lightning, transformers, Accelerate, TRL, datasets, WebDataset and Megatron", TORCH, """
export PYTHONPATH=.
MYPYPATH=benchmarks/workloads/scripts mypy \\
    adapters/resumable_torch/*.py tests/torch_adapter/*.py benchmarks/workloads/scripts/torch_*.py \\
    examples/images_lightning.py
python -m pytest --require-packages tests/torch_adapter --ignore tests/torch_adapter/test_torchtitan.py \\
    tests/examples/test_gpt_ddp.py tests/examples/test_fsdp_dcp.py tests/examples/test_images_lightning.py \\
    tests/formats/test_megatron_of_megatron.py
python -m pytest --require-packages tests/docs -k "pytorch or lightning or hugging-face or nemo or dataloader or mixture-on-ranks"
"""),
    Step("torchtitan", "torchtitan", TITAN, """
export PYTHONPATH=.
mypy adapters/resumable_torch/torchtitan.py tests/torch_adapter/*titan.py
python -m pytest --require-packages tests/torch_adapter/test_torchtitan.py
python -m pytest --require-packages tests/docs -k torchtitan
"""),
    Step("jax", "JAX, Orbax, Flax, Optax and Grain", JAX, """
export PYTHONPATH=.
MYPYPATH=benchmarks/workloads/scripts mypy \\
    adapters/resumable_jax/*.py tests/jax_adapter/*.py benchmarks/workloads/scripts/jax_*.py examples/nnx_orbax.py
python -m pytest --require-packages tests/jax_adapter tests/examples/test_nnx_orbax.py
python -m pytest --require-packages tests/docs -k jax
"""),
    Step("tf-2.15", "TensorFlow 2.15 with Estimator", TF_OLD, """
# The step `tf-2.21` runs the benchmarks.
PYTHONPATH=. python -m pytest --require-packages tests/tf_adapter \\
    --ignore tests/tf_adapter/test_async_benchmark.py --ignore tests/tf_adapter/test_benchmark.py \\
    tests/examples/test_keras_fit.py tests/examples/test_estimator_hooks.py
"""),
    Step("tf-2.21", "TensorFlow 2.21, and Keras with JAX and PyTorch", TF_NEW, """
PYTHONPATH=. python -m pytest --require-packages tests/tf_adapter tests/examples/test_keras_fit.py
PYTHONPATH=. python -m pytest --require-packages tests/docs -k tensorflow
PYTHONPATH=. python -m pytest --require-packages tests/stages/test_pack_as_grain_does.py tests/test_documentation.py \\
    tests/formats/test_tfrecord.py tests/formats/test_tfrecord_of_tensorflow.py -k "bfloat16 or tfrecord or examples"
"""),
    Step("readme", "the README's commands in a fresh environment with the newest Python, warnings as errors", None, f"""
python3.13 -m venv "$WORK/fresh"
source "$WORK/fresh/bin/activate"
{{ pip install -e . && resumable demo; }} || exit 1
# Not for pip, which has warnings of its own.
strict="PYTHONDEVMODE=1 PYTHONWARNINGS=error"
# Some tests run in a worker of the test runner, as all do on a user's machine, and with the debugging of memory that
# belongs to Python's development mode. With the worker they take a tenth longer, with the debugging a sixth.
{{ pip install -e ".[test]" && env $strict PYTEST_XDIST_AUTO_NUM_WORKERS=1 pytest {tests(OF_MEMORY)}; }} || exit 1
env $strict PYTHONMALLOC=pymalloc pytest {ignored(OF_MEMORY)}
"""),
    Step("ray", "Ray: actors as an executor, killed nodes, and Ray Train", RAY, """
export PYTHONPATH=.
MYPYPATH=benchmarks/workloads/scripts mypy \\
    adapters/resumable_ray/*.py tests/ray_adapter/*.py benchmarks/workloads/scripts/ray_*.py
python -m pytest -n 0 --require-packages tests/ray_adapter  # one cluster is enough
python -m pytest --require-packages tests/docs -k "ray and not arrays"
"""),
    Step("formats-of-others", "files that other loaders have written", OTHERS, """
export PYTHONPATH=.
python -m pytest --require-packages tests/formats/test_shards_of_others.py
"""),
    Step("loaders", "the same items from every loader of the benchmark", LOADERS, f"""
# The step `formats-of-others` makes what MosaicML Streaming needs; if it has not yet, that loader is left out.
mkdir "$WORK/environments"
ln -s "{OTHERS.folder}" "$WORK/environments/streaming"
# The other workloads have no loaders of others, and the steps `deep` and `files` run them.
RESUMABLE_BENCHMARK_ENVIRONMENTS="$WORK/environments" python -m benchmarks --quick --rounds 1 --output "$WORK/benchmarks" \\
    --workloads elastic,language-model,many-files,parallel,parquet,partitions,python-map,resume-time,state-size,stream-shuffle,text,tfrecord
"""),
    Step("old", "the tests with the oldest Python and NumPy, warnings as errors", OLD, f"""
export PYTHONMALLOC=pymalloc
{STRICT} {ignored((*ONCE, *OF_TEXT))}
"""),
    Step("files", "files of all formats, written by others, compressed and remote", FILES, """
export PYTHONPATH=.
python -m pytest --require-packages tests/formats tests/cli/test_index.py \\
    --ignore tests/formats/test_tfrecord_of_tensorflow.py --ignore tests/formats/test_megatron_of_megatron.py \\
    --ignore tests/formats/test_array_record.py --ignore tests/formats/test_lance.py \\
    --ignore tests/formats/test_shards_of_others.py --ignore tests/formats/test_removed_files.py
python -m pytest --require-packages tests/formats/test_removed_files.py -k "not array_record and not lance"
python -m pytest --require-packages tests/test_golden_states.py tests/test_laws.py tests/test_documentation.py \\
    -k "parquet or arrow or tfrecord or examples"
python -m pytest --require-packages tests/docs -k "files.md or vision.md or media.md or scientific-arrays.md or storage.md or cache"
python -m pytest --require-packages -m deep tests/formats/test_fuzzed_files.py tests/test_benchmarks.py \\
    -k "fuzzed or parquet or tar or tfrecord or remote_cache"
"""),
    Step("lance", "ArrayRecord files and Lance datasets", LANCE, """
export PYTHONPATH=.
python -m pytest --require-packages tests/formats/test_array_record.py tests/formats/test_lance.py
python -m pytest --require-packages tests/formats/test_fuzzed_files.py -k "array_record or lance"
python -m pytest --require-packages tests/formats/test_removed_files.py -k "array_record or lance"
python -m pytest --require-packages tests/test_golden_states.py tests/test_documentation.py -k "array_record or lance or examples"
python -m pytest --require-packages tests/docs -k "lance.md"
"""),
    Step("archives", "wheel and sdist in empty environments", BUILD, """
python -m build --no-isolation --outdir "$WORK/dist" . >/dev/null
python .ci/archives.py "$WORK/dist"
for version in 3.10 3.13; do
    # The pip of the interpreter, since to have one in each of these environments takes longer than all else.
    pip_install() { "python$version" -m pip --python "$WORK/empty" install --quiet "$@"; }
    "python$version" -m venv --clear --without-pip "$WORK/empty"
    pip_install --dry-run "$(ls "$WORK"/dist/*.whl)[all]"
    for archive in "$WORK"/dist/*.whl "$WORK"/dist/*.tar.gz; do
        "python$version" -m venv --clear --without-pip "$WORK/empty"
        pip_install "$archive"
        "$WORK/empty/bin/python" -W error -I .ci/installed.py
        "$WORK/empty/bin/resumable" --version
        echo "$(basename "$archive") under Python $version: good"
    done
done
"""),
    Step("docs", "the pages, strictly, with all their links", DOCS, """
sphinx-build -W --keep-going -q -b dirhtml docs "$WORK/pages"
grep -q '<details open><summary class="caption">' "$WORK/pages/index.html"  # the sidebar folds
grep -q 'class="overview' "$WORK/pages/reference/stages/index.html"
! grep -rlE '<(script|link|img)[^>]+(src|href)="https?:' "$WORK/pages" --include=*.html
"""),
    Step("remote", "the remote store against a server that speaks S3", REMOTE, """
PYTHONPATH=. python -m pytest --require-packages tests/checkpoint/test_remote.py
"""),
    Step("dask", "a map on a Dask cluster of two processes", DASK, """
PYTHONPATH=. python -m pytest --require-packages tests/workers/test_dask.py
PYTHONPATH=. python -m pytest --require-packages tests/docs -k dask
"""),
]  # fmt: skip
