"""Why a pipeline is not exact: the causes that a verification can tell apart."""

from __future__ import annotations

from typing import Final, NamedTuple


class Reason(NamedTuple):
    """A cause.

    Attributes:
      name: the same words each time.
      evidence: the observations, in sentences.
      hint: how to cure the cause; `hints` has better advice for some stages.
    """

    name: str
    evidence: str
    hint: str


_CHECK_STAGE: Final = "Check the stage with resumable.testing.check_stage."
_MAKE_ANEW: Final = "Pass from_iterable a function that makes the iterator anew."

HASH_ORDER: Final = Reason(
    "hash order",
    "Runs agree if PYTHONHASHSEED is the same, and differ if it is not: the order of a set, or "
    "hash() of a string, decides what comes out.",
    "Sort what comes out of a set, and derive numbers from strings by hashlib.",
)
RANDOMNESS: Final = Reason(
    "unseeded randomness",
    "Runs differ, and agree if whatever is random without a seed begins with the same one.",
    "Use random_map(fn, seed), whose generator belongs to the item, or seed by the item.",
)
TIME: Final = Reason(
    "time",
    "Runs differ, and agree if the time of day stands still.",
    "Keep the clock out of the items.",
)
SOURCE_CHANGED: Final = Reason(
    "source changed",
    "Runs of the source alone differ, with the same seeds and at the same time of day: its data "
    "changed between them.",
    "Freeze the data while a run lasts: read a snapshot, a version, a list of files.",
)
NOT_REPRODUCIBLE: Final = Reason(
    "not reproducible",
    "Runs differ, with the same seeds, the same hashes and at the same time of day.",
    "Look for files, the network, addresses of objects (id, the default hash) and threads.",
)
UNSTEADY: Final = Reason(
    "not reproducible",
    "It differed, and then not again under the same circumstances.",
    "Look for the clock, files, the network and threads.",
)
UNEXPLAINED: Final = Reason(
    "not reproducible",
    "It differed, and why could not be found out.",
    "See what could not be checked; look for the clock, files, the network and threads too.",
)
READ_ONCE: Final = Reason(
    "read once",
    "A second run in the same process gets no item: the source can be read only once.",
    _MAKE_ANEW,
)
COUNTS_EPOCHS: Final = Reason(
    "counts epochs",
    "A second run in the same process differs, and the source alone already does: it counts its "
    "own epochs, or goes on where it was.",
    "Pass from_iterable a function that makes the iterator anew, and chain epochs by repeat().",
)
FUNCTION_KEEPS_STATE: Final = Reason(
    "function keeps state",
    "What comes out depends on what the same process computed before: in one that computed "
    "something else it differs.",
    "Keep in the iterator, and in its state, what the stage remembers from item to item.",
)
STATE_INCOMPLETE: Final = Reason(
    "state incomplete",
    "Resumed it does not continue the run, neither in a fresh process nor in the same: the state "
    "does not hold all that the next items depend on, or set_state does not restore it.",
    _CHECK_STAGE,
)
STATE_REFUSED: Final = Reason(
    "state refused", "A resume from a checkpoint of its own failed.", _CHECK_STAGE
)
SAVE_FAILED: Final = Reason("state cannot be saved", "Saving its state failed.", _CHECK_STAGE)
STATE_NOT_SAVED: Final = Reason(
    "state cannot be saved", "The state holds what has no exact form.", "Keep plain values in it."
)
DEPENDS_ON_THREADS: Final = Reason(
    "depends on threads",
    "As it is it continues exactly, with other workers or another prefetch depth it does not.",
    "Let its function touch nothing that several calls share.",
)
DEPENDS_ON_PULLS: Final = Reason(
    "depends on how it is pulled",
    "Asked for several items at once, it delivers others, or other types, than when asked for one by one. "
    "How many are asked for differs after a resume, and with prefetch and workers.",
    "Let pull(count) deliver the same items, of the same types, whatever count is.",
)
RANKS_DIFFER: Final = Reason(
    "ranks differ",
    "Other numbers of ranks do not continue the global order.",
    "Check the stages before it with resumable.testing.check_stage.",
)
RANKS_START_OVER: Final = Reason(
    "ranks start over",
    "Ranks that save one checkpoint together do not go on from the newest step that all have saved.",
    "Let the pipeline of each rank differ in index and count of shard alone.",
)
RANK_GOES_ASTRAY: Final = Reason(
    "a rank goes astray",
    "Killed and started again as one of several ranks that save one checkpoint together, a rank does not "
    "continue its own run.",
    "Check the stages after shard with resumable.testing.check_stage.",
)
STATE_OF_ANOTHER: Final = Reason(
    "takes the state of another rank",
    "A rank accepts the state of another one, and then does not deliver its own items.",
    "Let depends_on of the stage have RANK, the default, if its state depends on which items came before.",
)
