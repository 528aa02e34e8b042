"""What a stage is and how items move; re-exports what the author of a stage needs."""

# Description: `stage`, with base classes in `transform`, `combine`, `function_state` (stages that call
# a function) and `lookup` (stages whose items are looked up by index). Motion: `stage_iterator` and
# `block`. Random access: `indexed`. The iterator that a user holds: `iterator`.

from __future__ import annotations

from ..errors import StateMismatch as StateMismatch
from ..state.value import State as State
from ..state.value import freeze as freeze
from ..state.value import unpack as unpack
from ..state.value import unpack_count as unpack_count
from ..state.value import unpack_flag as unpack_flag
from ..state.value import unpack_position as unpack_position
from .arguments import check_bool as check_bool
from .arguments import check_callable as check_callable
from .arguments import check_choice as check_choice
from .arguments import check_int as check_int
from .arguments import check_seed as check_seed
from .block import Block as Block
from .block import Indices as Indices
from .block import block_items as block_items
from .block import block_length as block_length
from .block import is_columns as is_columns
from .block import slice_block as slice_block
from .block import take_rows as take_rows
from .combine import Combine as Combine
from .combine import CombineIterator as CombineIterator
from .derived import derived as derived
from .failed_item import map_items as map_items
from .flow import Flow as Flow
from .foreign_source import ExternalSource as ExternalSource
from .function_state import CallsFunction as CallsFunction
from .function_state import check_stateless as check_stateless
from .function_version import FunctionVersion as FunctionVersion
from .identity import SEED as SEED
from .identity import IdentityField as IdentityField
from .identity import IdentityFields as IdentityFields
from .indexed import OWN_INDICES as OWN_INDICES
from .indexed import Indexed as Indexed
from .layout import INTEGERS as INTEGERS
from .layout import LISTS as LISTS
from .layout import STACKED as STACKED
from .layout import ColumnsLike as ColumnsLike
from .layout import Layout as Layout
from .layout import common_layout as common_layout
from .layout import joined_layout as joined_layout
from .layout import rows_layout as rows_layout
from .layout import stacked_layout as stacked_layout
from .lookup import IndexedIterator as IndexedIterator
from .lookup import LookedUp as LookedUp
from .lookup import check_reach as check_reach
from .lookup import countable as countable
from .prepared_items import PreparedItems as PreparedItems
from .reliance import ALWAYS as ALWAYS
from .reliance import EPOCHS as EPOCHS
from .reliance import ITEMS as ITEMS
from .reliance import NOTHING as NOTHING
from .reliance import PARTS as PARTS
from .reliance import RANK as RANK
from .reliance import Reliance as Reliance
from .saved_state import SavedState as SavedState
from .skipped import CountsSkipped as CountsSkipped
from .source_item import SourceItem as SourceItem
from .stage import Length as Length
from .stage import RunsAhead as RunsAhead
from .stage import Stage as Stage
from .stage import by_index as by_index
from .stage import known_length as known_length
from .stage_iterator import CallsOneByOne as CallsOneByOne
from .stage_iterator import DeferredState as DeferredState
from .stage_iterator import DefersState as DefersState
from .stage_iterator import ItemByItem as ItemByItem
from .stage_iterator import Items as Items
from .stage_iterator import MovesInBlocks as MovesInBlocks
from .stage_iterator import SourceIterator as SourceIterator
from .stage_iterator import StageIterator as StageIterator
from .stage_iterator import blocks_of as blocks_of
from .stage_iterator import pulled_blocks as pulled_blocks
from .stage_iterator import state_deferrer as state_deferrer
from .transform import CountingIterator as CountingIterator
from .transform import IndexedTransform as IndexedTransform
from .transform import PassThrough as PassThrough
from .transform import PassThroughIterator as PassThroughIterator
from .transform import SteadyIterator as SteadyIterator
from .transform import Transform as Transform
from .transform import TransformIterator as TransformIterator
