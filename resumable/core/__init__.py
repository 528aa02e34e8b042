"""Stages and the motion of items; re-exports the names needed by authors of stages."""

# Description: `stage`, with base classes in `transform`, `combine`, `function_state` (stages that
# call a function) and `lookup` (stages whose items are looked up by index). Motion:
# `stage_iterator` and `block`. Random access: `indexed`. The iterator for users: `iterator`.

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StateMismatch as StateMismatch
from ..state.value import State as State
from ..state.value import freeze as freeze
from ..state.value import unpack as unpack
from ..state.value import unpack_count as unpack_count
from .arguments import check_int as check_int
from .arguments import check_seed as check_seed
from .block import Block as Block
from .block import Indices as Indices
from .block import block_items as block_items
from .block import block_length as block_length
from .combine import Combine as Combine
from .combine import CombineIterator as CombineIterator
from .computed_once import computed_once as computed_once
from .failed_item import each as each
from .failed_item import map_items as map_items
from .flow import Flow as Flow
from .function_state import CallsFunction as CallsFunction
from .identity import ALWAYS as ALWAYS
from .identity import EPOCHS as EPOCHS
from .identity import ITEMS as ITEMS
from .identity import NOTHING as NOTHING
from .identity import PARTS as PARTS
from .identity import RANK as RANK
from .identity import SEED as SEED
from .identity import Dependence as Dependence
from .identity import IdentityField as IdentityField
from .identity import IdentityFields as IdentityFields
from .indexed import Indexed as Indexed
from .layout import LISTS as LISTS
from .layout import STACKED as STACKED
from .layout import ColumnsLike as ColumnsLike
from .lookup import IndexedIterator as IndexedIterator
from .lookup import LookedUp as LookedUp
from .old_names import deprecated_name
from .orders import Length as Length
from .orders import Order as Order
from .orders import Remains as Remains
from .orders import TurnOrder as TurnOrder
from .prepared_items import PreparedItems as PreparedItems
from .relation import Aligned as Aligned
from .relation import Drawn as Drawn
from .relation import Grouped as Grouped
from .relation import Held as Held
from .relation import InputItems as InputItems
from .relation import Joined as Joined
from .relation import Kept as Kept
from .relation import Made as Made
from .relation import Permuted as Permuted
from .relation import Relation as Relation
from .relation import Repeated as Repeated
from .relation import Routed as Routed
from .relation import Same as Same
from .relation import Sliced as Sliced
from .relation import Split as Split
from .saved_state import SavedState as SavedState
from .source_item import SourceItem as SourceItem
from .stage import Stage as Stage
from .stage import by_index as by_index
from .stage_iterator import ItemByItem as ItemByItem
from .stage_iterator import Items as Items
from .stage_iterator import SourceIterator as SourceIterator
from .stage_iterator import StageIterator as StageIterator
from .transform import CountingIterator as CountingIterator
from .transform import IndexedTransform as IndexedTransform
from .transform import OwnStateIterator as OwnStateIterator
from .transform import PassThrough as PassThrough
from .transform import Transform as Transform
from .transform import TransformIterator as TransformIterator

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return deprecated_name(name)
