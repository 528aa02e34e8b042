"""Small faults, each of which the tests must notice: a piece of the source, and what is put there.

A general tool for mutations makes thousands of them, most of no consequence, and runs the whole suite for each.
This table has those that would lose, repeat or reorder items, spoil a state or a save, or make work that is not needed.
Those of stages and formats stand with their facts, in `tests/stages/facts/` and `tests/formats/facts/`. `mutants.TESTS` names the tests that must turn red, so each is tried against a few folders, and one that survives is worth reading.
"""

from __future__ import annotations

from typing import Final

from support.facts import STAGE_FACTS, Mutation
from support.format_facts import FORMAT_FACTS

__all__ = ["MUTATIONS", "Mutation"]

BLOCK: Final = "core/block.py"
CARRIED: Final = "core/function_state.py"
INDEXED: Final = "core/lookup.py"
ITERATOR: Final = "core/iterator.py"
FINGERPRINT: Final = "core/fingerprint.py"
VALUE: Final = "state/value.py"
ENCODING: Final = "state/encoding.py"
RELATION: Final = "core/relation.py"
RUNS: Final = "core/prepared_items.py"
RESERVOIR: Final = "windows/reservoir.py"
SNAPSHOTS: Final = "windows/snapshots.py"
PARALLEL: Final = "workers/parallel_map.py"
FOREIGN: Final = "workers/foreign_executor.py"
SIGNALS: Final = "triggers/signals.py"
CHECKPOINTER: Final = "checkpoint/checkpointer.py"
DIRECTORY: Final = "checkpoint/directory.py"
FILES: Final = "checkpoint/files.py"
LOCKING: Final = "checkpoint/locking.py"
LOOP: Final = "checkpoint/loop.py"
PARTS: Final = "checkpoint/ranks/parts.py"
READING: Final = "checkpoint/reading.py"
RETENTION: Final = "checkpoint/retention.py"
SAVER: Final = "checkpoint/saver.py"

MUTATIONS: Final = [
    # relations
    Mutation(RELATION, "if self.kept and count else count]", "if self.kept else count - 1]"),
    Mutation(RELATION, "return [count * self.step]", "return [count * self.step - self.step]"),
    Mutation(RELATION, "self.step + self.start + 1, self.stop)", "self.step + 1, self.stop)"),
    Mutation(
        RELATION,
        "outputs if self.length is None else outputs[",
        "outputs if self.length else outputs[",
    ),
    Mutation(RELATION, "np.append(outputs, self.last[0])", "outputs"),
    Mutation(RELATION, "self.order().inverse(items) if", "self.order()(items) if"),
    Mutation(RELATION, "return place if place in places", "return place + 1 if place in places"),
    Mutation(
        RELATION,
        "return [self.remaining().index_of(int(count) - 1) + 1]",
        "return [self.remaining().index_of(int(count) - 1)]",
    ),
    Mutation(RELATION, "turns.turn_of(number, item) for", "turns.turn_of(0, item) for"),
    Mutation(
        RELATION,
        "self.turns().turns_before(int(count))",
        "self.turns().turns_before(int(count) - 1)",
    ),
    Mutation(
        RELATION, "return [count if length is not None", "return [count - 1 if length is not None"
    ),
    Mutation(
        RELATION,
        "return [count] * len(self.stage.inputs)",
        "return [count - 1] * len(self.stage.inputs)",
    ),
    Mutation(
        RELATION,
        "return [(count - 1) * self.step + self.size if",
        "return [(count - 1) * self.step + 1 if",
    ),
    Mutation(RELATION, "(items - self.size + 1) // self.step", "(items - self.size) // self.step"),
    Mutation(RELATION, "else -(-count // self.size)]", "else count // self.size]"),
    Mutation(RELATION, "self.size + np.arange(self.size)", "self.size + np.arange(self.size - 1)"),
    # stages, and what they are made of
    *STAGE_FACTS.gathered(lambda facts: facts.mutations),
    # formats
    *FORMAT_FACTS.gathered(lambda facts: facts.mutations),
    Mutation(
        "core/access.py",
        "lambda indices: [item(index) for index in indices.tolist()]",
        "lambda indices: list(map(item, indices.tolist()))",
    ),
    Mutation("core/replay_point.py", "len(self.rows) - length_hint(self.outputs)", "0"),
    Mutation("core/replay_point.py", "self.offset.move_to(0)", "pass"),
    Mutation(
        "core/replay_point.py",
        "self.noted = partial(_state_before_last, self._upstream)",
        "self.noted = self._note_upstream()",
    ),
    Mutation(
        "core/replay_point.py",
        "upstream if knows_state else self._noting(upstream)",
        "upstream",
    ),
    Mutation("core/expansion.py", "skip_outputs(outputs, skipped, OUTPUTS, self._stage)", "pass"),
    Mutation("core/stage_iterator.py", 'return last_changed != {"get_state"}', "return True"),
    Mutation("sources/recent.py", "int(next_sampled(last) == last)", "0"),
    Mutation("sources/iterable.py", "if offset != -1 or", "if"),
    Mutation(
        "core/combine.py", "len(self._numbers) + 1 - (self._left() or 1)", "len(self._numbers)"
    ),
    Mutation(
        "core/combine.py",
        "self._advance_past_end(len(numbers) - left)",
        "self._advance_past_end(0)",
    ),
    Mutation("core/combine.py", "self._advance_turns(self._taken)", "pass"),
    Mutation(
        "core/failed_item.py",
        "if len(made) != len(items):  # `map`",
        "if len(made) > len(items):  # `map`",
    ),
    Mutation(
        "order/long_schedule.py", "counts[rows, upstreams] += step", "counts[rows, upstreams] += 1"
    ),
    Mutation(
        "core/epochs.py",
        "return self.upstreams[bisect_right(self.starts, epoch) - 1]",
        "return self.upstreams[0]",
    ),
    Mutation("core/epochs.py", "max(begin - first, 0)", "begin"),
    Mutation("core/epoch_runs.py", 'side="right"', 'side="left"'),
    Mutation("core/made_of.py", "ascending = ascending and relation.ascending", "pass"),
    Mutation(
        "core/relation.py",
        "return not self.split._changes",
        "return True",
    ),
    Mutation("order/permutation.py", "reversed(range(ROUNDS))", "range(ROUNDS)"),
    Mutation(
        "order/block_permutation.py",
        "slots += slots >= self._short",
        "slots += slots > self._short",
    ),
    Mutation("order/remaining.py", "self.index_of(first - 1) + 1", "self.index_of(first)"),
    Mutation("core/left_out.py", "added[0] += before", "added[0] = before"),
    Mutation("core/left_out.py", "if guess == index:", "if guess >= index:"),
    Mutation(
        "core/left_out.py",
        "last_up_to(place, self.kept_before, index)",
        "last_up_to(place - 1, self.kept_before, index)",
    ),
    Mutation("core/exclusion.py", "(not before.total or upstream.indexed(0).every_epoch)", "True"),
    Mutation("sources/without_items.py", "place + (read > last + 1)", "place"),
    Mutation(
        "formats/left_out_of_streams.py",
        "len(places) < following - handed_out",
        "len(places) <= following - handed_out",
    ),
    Mutation("formats/left_out_of_streams.py", "named + 1", "named"),
    Mutation("formats/streams.py", "last=found.last and ended", "last=found.last"),
    Mutation("formats/streams.py", "items + (here.file == len(self._stage.found))", "items"),
    Mutation("formats/streams.py", "places.append(len(found.numbers))", "pass"),
    Mutation(FINGERPRINT, "default=Evidence.as_json", "default=None"),
    Mutation(
        "groups/motion.py",
        "self._offset.end, self._offset.left = self._length - 1,",
        "self._offset.end, self._offset.left = self._length,",
    ),
    # the cache of remote files
    Mutation(
        "file_cache/eviction.py", "[*unused, *last_used, *later]", "[*later, *last_used, *unused]"
    ),
    Mutation("file_cache/eviction.py", "_sorted_by(used, ~read)", "_sorted_by(-used, ~read)"),
    Mutation("file_cache/eviction.py", "_sorted_by(-used, read", "_sorted_by(used, read"),
    Mutation("file_cache/eviction.py", "_sorted_by(-needed_at, read", "_sorted_by(needed_at, read"),
    Mutation("file_cache/eviction.py", "read & (needed_at > at)", "read & (needed_at >= 0)"),
    Mutation("file_cache/eviction.py", "        if self._others:\n            return 0\n", ""),
    Mutation("file_cache/eviction.py", "last_used[few:] + last_used[:few]", "last_used"),
    Mutation("file_cache/eviction.py", "not self._said.issuperset(new.values()) or now", "now"),
    Mutation("file_cache/eviction.py", "with self._lock:", "if True:"),
    Mutation(
        "core/file_locks.py",
        "            lock(descriptor)\n            if is_at",
        "            if is_at",
    ),
    Mutation("core/file_locks.py", "if is_at(descriptor, path):", "if True:"),
    Mutation(
        "core/file_locks.py",
        "                    check(descriptor, path)\n",
        "                    pass\n",
    ),
    Mutation(
        "file_cache/claim.py", "os.ftruncate(self._descriptor, HEADER.size + self.size)", "pass"
    ),
    Mutation("file_cache/part_file.py", "os.ftruncate(opened, HEADER.size + len(content))", "pass"),
    Mutation(
        "file_cache/claim.py", "        (check_own or _check_own)(descriptor, unfinished)\n", ""
    ),
    Mutation("core/file_locks.py", "os.close(_held.pop())", "_held.pop()"),
    Mutation("file_cache/claim.py", "if self._ends.acquire(blocking=False):", "if True:"),
    Mutation("file_cache/part_file.py", "and header == header_of(content)", ""),
    Mutation("file_cache/part_file.py", "data if len(data) == stop - start else None", "data"),
    Mutation(
        "file_cache/part_file.py",
        "if status.st_size and file.read(len(MAGIC)) != MAGIC:",
        "if False:",
    ),
    Mutation("file_cache/part_file.py", "if now - self._used_ns > 10**9:", "if False:"),
    Mutation("file_cache/part_store.py", "self._checked.clear()", "pass"),
    Mutation("file_cache/part_store.py", "self._checked.get(path) == opened.identity", "True"),
    Mutation(
        "core/file_locks.py",
        "        except BlockingIOError:\n            os.close(descriptor)\n            return None\n",
        "",
    ),
    Mutation(
        "file_cache/plan.py",
        "write_all(self._descriptor, data)",
        "os.write(self._descriptor, data)",
    ),
    Mutation("file_cache/plan.py", "if len(numbers) != 2 + 2 * uses + contents:", "if False:"),
    Mutation(
        "file_cache/plan.py",
        "np.where(self.codes[places] == codes, self.at[places], -1)",
        "self.at[places]",
    ),
    Mutation("file_cache/plan.py", "np.lexsort((at, codes))", "np.lexsort((-at, codes))"),
    Mutation(
        "file_cache/plan.py", '        if os.read(descriptor, len(MAGIC)) in (MAGIC, b""):\n', ""
    ),
    Mutation("file_cache/room.py", "used = unfinished + sum(", "used = sum("),
    Mutation("file_cache/room.py", "write(max(used - HEADER.size - size, 0))", "pass"),
    Mutation(
        "file_cache/room.py", "if digits.isdigit() else self._most", "if digits.isdigit() else 0"
    ),
    Mutation(
        "file_cache/room.py", "            PartFile.check_own(self.path)\n", "            pass\n"
    ),
    Mutation("file_cache/part_file.py", "        PartFile.check_own(path)\n", ""),
    Mutation(
        "file_cache/copies.py",
        "                if os.path.lexists(path):\n",
        "                if False:\n",
    ),
    Mutation("file_cache/room.py", "elif not remove_if_dead(entry.path, check_own):", "else:"),
    Mutation("file_cache/room.py", "write(used + needed)", "write(used)"),
    Mutation(
        "file_cache/foresight.py", "self.uses.at - moved[self.uses.iterator_of]", "self.uses.at"
    ),
    Mutation("file_cache/foresight.py", "moved[self.uses.iterator_of]", "moved.max(initial=0)"),
    Mutation("file_cache/foresight.py", 'places[np.argsort(at[places], kind="stable")]', "places"),
    Mutation("file_cache/foresight.py", "<= self.horizon // RENEWED", ""),
    Mutation("file_cache/foresight.py", "self._read[place] += size", "pass"),
    Mutation("file_cache/foresight.py", "if uses.cache == self._cache", "if True"),
    Mutation("file_cache/parts.py", "min(start, before.start), max(end, before.end)", "start, end"),
    Mutation("file_cache/parts.py", "total += before.total", "pass"),
    Mutation("file_cache/parts.py", "slice(start - piece.start,", "slice(start,"),
    Mutation("file_cache/contents.py", "if part.remove():", "if part.remove() or True:"),
    Mutation("file_cache/contents.py", "if NAME.fullmatch(name):", "if True:"),
    Mutation(
        "file_cache/working_set.py", "np.lexsort((steps, times))", "np.lexsort((-steps, times))"
    ),
    Mutation("file_cache/working_set.py", "at[lasts] + 1", "at[lasts]"),
    Mutation("file_cache/eviction.py", "read & ~whole & (needed_at < 0)", "read & (needed_at < 0)"),
    Mutation(
        "file_cache/room.py",
        "if used - sum(part.size for part in chosen) + needed <= self._most:",
        "if True:",
    ),
    Mutation("file_cache/copies.py", "if checksum_of(file) != note.checksum:", "if False:"),
    Mutation("file_cache/copies.py", "if self._is_whole(path, file.size):", "if whole_copy(path):"),
    Mutation("file_cache/copies.py", "            self._room.release(file.size)\n", ""),
    Mutation("file_cache/copy_file.py", "note.identity == identity_of(status)", "True"),
    Mutation("file_cache/copy_file.py", "note is None or note.inode != status.st_ino", "False"),
    Mutation("formats/io/conditional.py", " or _strong(found.tag) != _strong(file.tag[1])", ""),
    Mutation("formats/io/conditional.py", 'found.size in ("", "*", str(file.size))', "True"),
    Mutation("formats/io/conditional.py", '"Accept-Encoding": "identity"', ""),
    Mutation("formats/io/held_ranges.py", "held[place].span.end < stop", "False"),
    Mutation("formats/io/held_ranges.py", "begin + len(content), stop", "begin, stop"),
    Mutation("formats/io/held_ranges.py", "key=_START) - 1", "key=_START) - 2"),
    Mutation("formats/io/held_ranges.py", "if each.until >= place]", "if True]"),
    Mutation(
        "formats/read_planner.py", "order = order[order >= place]", "order = order[order >= 0]"
    ),
    Mutation("formats/io/stored_files.py", "content[self._offset - asked.start :]", "content"),
    Mutation("formats/io/stored_files.py", "self._queue[0].end <= place", "False"),
    Mutation(
        "formats/io/stored_files.py", "if self._process != os.getpid():", "if not self._process:"
    ),
    Mutation("formats/io/stored_files.py", "MOST_ASKED * self._in_a_row", "1 << 40"),
    Mutation("formats/io/stored_files.py", "if place != self._offset:", "if False:"),
    Mutation("formats/io/stored_files.py", "// max(len(members(_reading)), 1)", ""),
    Mutation("formats/io/stored_files.py", "or held + size > patience.ahead", ""),
    Mutation("formats/io/stored_files.py", "len(self._queue) < patience.at_once and", ""),
    Mutation("formats/io/stored_files.py", "share if share >= SMALL_RANGE else 0", "share"),
    Mutation(
        "formats/io/stored_files.py", "+ epoch * starts[-1] - self._offset", "+ epoch * starts[-1]"
    ),
    Mutation("formats/io/stored_files.py", "for epoch in range(2):", "for epoch in range(1):"),
    Mutation("formats/io/stored_files.py", "file_of=places[uses.file_of]", "file_of=uses.file_of"),
    Mutation("formats/io/stored_files.py", "        foreseeing.discard(self)\n", ""),
    Mutation(
        "formats/io/cached_parts.py",
        "begins[file_of] + starts, 0",
        "begins[file_of], 0",
    ),
    Mutation("formats/io/fetching.py", "for task in list(tasks):", "for task in ():"),
    Mutation("formats/io/stored_files.py", "self._queue.copy()", "self._queue"),
    Mutation("formats/io/stored_files.py", "in_forked_children(_reading.clear)", "pass"),
    Mutation("core/regular_files.py", "            os.unlink(temporary)\n", "            pass\n"),
    Mutation("formats/io/fetching_process.py", "with _starts:", "if True:"),
    Mutation(
        "formats/io/fetching_process.py",
        "        if not self._ends.acquire(blocking=False):\n            return\n",
        "",
    ),
    Mutation("formats/io/fetching_process.py", "self._written.pop(number, None) is None", "True"),
    Mutation(
        "formats/io/fetching_server.py",
        "            if not has_job:\n                continue\n",
        "",
    ),
    Mutation(
        "formats/io/fork_gate.py",
        "        with _lock:\n            _calls.d",
        "        if True:\n            _calls.d",
    ),
    # sources and formats
    Mutation("sources/arrays.py", "if len(array) != len(first):", "if len(array) < len(first):"),
    Mutation("sources/iterable.py", "if passed < count:", "if passed < 0:"),
    Mutation("sources/shared_position.py", "earlier[0] = _TakenByAnother(earlier._stage)", "pass"),
    Mutation(
        "sources/iterable.py",
        "self._noted = None\n            left_there",
        "left_there",
    ),
    Mutation(
        "core/replay_point.py", "found = upstream.state_at(-1)", "found = upstream.state_at(0)"
    ),
    Mutation(
        "core/combine.py",
        "self._ended[number] = bool(len(there)) and place < int(there[-1])",
        "self._ended[number] = False",
    ),
    Mutation("sources/iterable_kinds.py", "copied.__dict__ = dict(attributes)", "pass"),
    Mutation(
        "sources/range.py", "return indices * self.step + self.begin", "return indices * self.step"
    ),
    Mutation(
        "sources/sequence.py",
        "items = list(many(indices.tolist()))",
        "items = list(many(sorted(indices.tolist())))",
    ),
    Mutation("formats/stream_file.py", "self._cut = True", "self._cut = False"),
    Mutation(
        "formats/io/pieces.py",
        "del self._stored_starts[:index], self._content_starts[:index]",
        "del self._stored_starts[:index]",
    ),
    Mutation("formats/io/pieces.py", 'self._input.lstrip(b"\\0") if not self._first else', ""),
    Mutation("formats/tables/source.py", '"names": NAMES,', '"contents": NAMES,'),
    Mutation("formats/contents.py", 'f"{names.pop()} {place}"', "names.pop()"),
    Mutation("formats/contents.py", "[(0, END), (size - END, size)]", "[(0, END)]"),
    Mutation("formats/contents.py", "[*pages, *digests_of_ends([file])]", "pages"),
    Mutation("core/evidence.py", "saved.get(self.kind, now)", "saved.get(self.kind)"),
    Mutation(
        "formats/tables/source.py",
        "            self._file.access.check_decoded()\n            self.used = True",
        "            self.used = True",
    ),
    Mutation("formats/tables/group_reads.py", "(since + own > most)", "(since > most)"),
    Mutation("formats/tables/group_reads.py", "(previous >= 0) | kept", "previous >= 0"),
    Mutation(
        "formats/tables/group_reads.py", "joined_ranges(self._firsts[numbers], counts)", "places"
    ),
    Mutation("formats/tables/source.py", "indices[read], at[read]", "indices, at"),
    Mutation("formats/tables/rows.py", "column[start:stop].copy()", "column[start:stop]"),
    Mutation(
        "formats/tables/values.py",
        "if array.null_count or isinstance(array, pa.ChunkedArray):",
        "if isinstance(array, pa.ChunkedArray):",
    ),
    Mutation("formats/shards/shard.py", "offsets[1:] < offsets[:-1]", "offsets[1:] < 0"),
    Mutation("formats/shards/shard.py", "if offsets[-1] != last:", "if offsets[-1] > last:"),
    Mutation("formats/shards/shard.py", "min(directory.nbytes + OVERHEAD, cache.most)", "0"),
    Mutation("formats/shards/unpacking.py", "if size > most:", "if False:"),
    Mutation("formats/shards/index_json.py", "if file.size != size:", "if file.size < size:"),
    Mutation("formats/shards/shard.py", "if count != items:", "if count < items:"),
    Mutation("formats/parts.py", "np.concatenate(places))", "np.concatenate(places[::-1]))"),
    Mutation("formats/shards/ranges.py", "asked.clear()", "pass"),
    Mutation(
        "formats/index/cache_file.py",
        "right = records > 0 and header == header_of(data, records, passed_over, content)",
        "right = records > 0",
    ),
    Mutation("formats/index/cache_file.py", "right = records > 0 and", "right ="),
    Mutation("formats/index/cache_file.py", "return owner in (_user(), data.owner)", "return True"),
    Mutation(
        "formats/index/pages.py", "if digest_of(content, PAGE_DIGEST) != digest:", "if False:"
    ),
    Mutation(
        "formats/index/pages.py",
        "for number in (first + record, first + record - 1 if record else first)",
        "for number in (first + record,)",
    ),
    Mutation("formats/records.py", ', "format_name": FORMAT_NAME}', "}"),
    Mutation("formats/io/clock_cache.py", "            if oldest.used:", "            if False:"),
    Mutation(
        "formats/io/open_files.py",
        "if (now.st_size, now.st_mtime_ns) != self._status:",
        "if False:",
    ),
    Mutation("formats/index/pages.py", "if not pages.place.is_whole():", "if False:"),
    Mutation(
        "formats/index/pack_file.py", "if row is None or row[1:3] != data[1:3]", "if row is None"
    ),
    Mutation(
        "formats/index/pack_file.py", "if digest_of(table, TABLE_DIGEST) != digest:", "if False:"
    ),
    Mutation("formats/index/pack_file.py", " or not is_believed(self.owner, data):", ":"),
    Mutation("formats/index/packs.py", "                    before.discard()\n", ""),
    Mutation("formats/index/packs.py", "len(missing) >= FEWEST_PACKED", "True"),
    # what a stage is and how items move
    Mutation(BLOCK, "return block.take(indices, 0)", "return block[indices[0] : indices[-1] + 1]"),
    Mutation(BLOCK, "if all(same_columns(first, block) for block in filled[1:]):", "if True:"),
    Mutation(CARRIED, "self._pending = _Taken(freeze(function))", "self._pending = None"),
    Mutation(CARRIED, "stage.first_state if epoch == 0 else None", "stage.first_state"),
    Mutation(
        INDEXED,
        "                self._end += len(part)\n",
        "                self._end = len(part)\n",
    ),
    Mutation(INDEXED, "return self._end - length_hint(self._cursor)", "return self._end"),
    Mutation(
        INDEXED,
        "        self._at_end = False\n        self._last_block_short = False",
        "        self._at_end = True\n        self._last_block_short = False",
    ),
    Mutation(
        ITERATOR,
        "        self._items = items\n        before.root.close()",
        "        self._items = items",
    ),
    Mutation(ITERATOR, "(positions, step - ahead)", "(positions, step)"),
    Mutation(ITERATOR, '"pipeline": freeze(positions)', '"pipeline": positions'),
    Mutation(
        ITERATOR, "            drawn = _skipped(root, missing)\n", "            drawn = missing\n"
    ),
    Mutation(
        ITERATOR,
        "                self._items = BROKEN\n                self._explain(error)\n                raise\n            try",
        "                self._items = items\n                self._explain(error)\n                raise\n            try",
    ),
    Mutation(
        FINGERPRINT,
        "dependence | _dependence(stage) if inputs",
        "dependence if inputs",
    ),
    Mutation(FINGERPRINT, "if value != default}", "}"),
    # changed runs
    Mutation(
        "core/epochs_difference.py", "if found and all(one.of_rank for one in found)", "if found"
    ),
    Mutation("core/epochs_difference.py", "begun <= span.following and begun < UNBOUNDED", "True"),
    Mutation(
        "core/differences.py",
        "is not None and (self.mismatches or run.lists_arguments)",
        "is not None and self.mismatches",
    ),
    Mutation("core/reach.py", "if count == UNBOUNDED:\n        yield", "if False:\n        yield"),
    Mutation("core/reach.py", "stage.length + 1)", "stage.length)"),
    Mutation(
        "core/saved_run.py",
        "            return str(error)\n        return None",
        "            pass\n        return None",
    ),
    # states
    Mutation(VALUE, "    if value < 0:\n", "    if value < -1:\n"),
    Mutation(VALUE, "value > maximum:", "value > maximum + 1:"),
    Mutation(
        VALUE, "return np.array(value) if isinstance(value, np.ndarray) else value", "return value"
    ),
    Mutation(
        VALUE,
        "if type(key) is not str and not is_key(key):\n                raise _Refused",
        "if False:\n                raise _Refused",
    ),
    Mutation(VALUE, "if state.keys() != set(names):", "if not set(names) <= state.keys():"),
    Mutation(
        ENCODING, "size = value.bit_length() // 8 + 1", "size = (value.bit_length() + 7) // 8"
    ),
    Mutation(ENCODING, "if len(unique) != len(pairs):", "if False:"),
    Mutation(
        "state/bounds.py",
        "if sum(heads[0x80:0xA0]) + sum(heads[0xDC:0xE0]) > MOST_CONTAINERS:",
        "if False:",
    ),
    # orders and windows
    Mutation("order/block_permutation.py", "blocks[slots == self._short] = self._whole", "pass"),
    Mutation("order/block_permutation.py", "self._key, 1 + group)", "self._key, 1)"),
    Mutation("order/permutation.py", "while outside.size:", "if outside.size:"),
    Mutation(
        "order/schedule.py",
        "return upstreams, numbers * self._parts[upstreams] + ranks",
        "return upstreams, numbers + ranks",
    ),
    Mutation("order/turns.py", "if (rest[:, 1:] == rest[:, :-1]).any():", "if False:"),
    Mutation("order/turns.py", "keys[numbers == number] =", "keys[:0] ="),
    Mutation("order/changing.py", "within + self._before[part, own]", "within"),
    Mutation("order/changing.py", "for turn in (stop, end)", "for turn in (end,)"),
    Mutation("order/changing.py", "for turn in (stop, end)", "for turn in (stop,)"),
    Mutation("order/changing.py", "if found < self._stops[part]:", "if True:"),
    Mutation("order/turns.py", "if np.count_nonzero(equal) > len(rows):", "if False:"),
    Mutation("order/permutation.py", "if value < self.length:", "if True:"),
    # items prepared at many indices
    Mutation(RUNS, "chosen[places] += len(inputs)", "pass"),
    Mutation(RUNS, "range(first_place, first_place + last - first)", "range(0, last - first)"),
    Mutation(
        RUNS,
        "return self.items_at(self.indices[places.start : places.stop].tolist())",
        "return iter(list(self.items_at(self.indices[places.start : places.stop].tolist())))",
    ),
    Mutation(INDEXED, "first = position - self._block_start\n", "first = 0\n"),
    Mutation(INDEXED, "        foreseeing.discard(self)\n", ""),
    Mutation("core/indexed.py", "max(most // self.items_each, 1)", "most"),
    Mutation("order/slots.py", "OLDEST_WINDOWS = 8", "OLDEST_WINDOWS = 6"),
    Mutation(RESERVOIR, "self._position.pass_over(count)", "self._position.pass_over(1)"),
    Mutation(SNAPSHOTS, "while len(self._snapshots) > 1 and", "while"),
    Mutation(SNAPSHOTS, "self._drained += len(items)", "self._drained = len(items)"),
    Mutation(SNAPSHOTS, "            self._move_to(first)\n", "            pass\n"),
    Mutation(SNAPSHOTS, "            self._consumed.pass_over(moved)\n", "            pass\n"),
    Mutation("windows/rereading.py", "> unneeded]] = True", "> unneeded]] = False"),
    Mutation("windows/carrying.py", "slots[self._hole] = None", "pass"),
    # what computes beside the loop
    Mutation(PARALLEL, "self._in_work -= stop - chunk.passed", "self._in_work -= 1"),
    Mutation(
        "workers/chunk.py",
        "return Chunk(block, self.positions[start:stop],",
        "return Chunk(block, self.positions,",
    ),
    Mutation(PARALLEL, "if not deaths.too_many:", "if False:"),
    Mutation(PARALLEL, "self._tally.pass_over(number - at)", "pass"),
    Mutation(PARALLEL, "self._upstream.state_at(self._taken - self._in_work)", "None"),
    Mutation(PARALLEL, "self._window[0].passed + self._taken - 1]", "-1]"),
    Mutation(PARALLEL, "self._tally.pass_over(taken)", "pass"),
    Mutation("workers/idle_workers.py", "if known is stage:", "if True:"),
    Mutation("workers/idle_workers.py", "self._closed = True", "pass"),
    Mutation("workers/items_ahead.py", "if self._grows and self._was_full:", "if self._grows:"),
    Mutation("workers/items_ahead.py", "min(self.size, self._most)", "self.size"),
    Mutation("workers/tally.py", "self.skipped += 1", "self.skipped += 2"),
    Mutation("workers/tally.py", "if tried is None else tried", ""),
    Mutation(
        "workers/prefetching.py",
        "self._handed_out, self._epoch = entry.state, entry.epoch",
        "self._epoch = entry.epoch",
    ),
    Mutation("workers/chunk_work.py", "if drop and isinstance(error, Exception):", "if drop:"),
    Mutation(PARALLEL, "if self._workers.die_together else [chunk]", "if True else [chunk]"),
    Mutation(PARALLEL, "self._workers.wait(other.answer, self._at)", "pass"),
    Mutation("workers/chunk_work.py", "(start + number, error)", "(number, error)"),
    Mutation("workers/chunk_work.py", "buffers=map(bytearray, parts[1:])", "buffers=parts[1:]"),
    Mutation(
        "workers/executor_thread.py",
        "max(outcome.size / tried, sent, 1)",
        "max(outcome.size / tried, 1)",
    ),
    Mutation("workers/function_pickler.py", "file.read(len(compared)) != compared", "False"),
    Mutation(FOREIGN, "raise WorkersLost(error) from error", "raise"),
    Mutation(FOREIGN, "(None, WorkersLost(error))", "(None, error)"),
    Mutation(FOREIGN, "_IMPORTED, os.getpid()", "_IMPORTED, 0"),
    # when to save
    Mutation(
        "triggers/rules.py",
        "progress.step // self.steps > progress.saved_step // self.steps",
        "progress.step % self.steps == 0",
    ),
    Mutation("triggers/rules.py", "progress.saved_step)\n", "progress.saved_step - 1)\n"),
    Mutation("triggers/rules.py", ">= self.seconds", "> self.seconds"),
    Mutation(
        "triggers/base.py",
        "return any([trigger.is_due(progress) for trigger in self.triggers])",
        "return any(trigger.is_due(progress) for trigger in self.triggers)",
    ),
    Mutation(SIGNALS, "signal.signal(self._number, self._previous)\n", "pass\n"),
    Mutation(
        SIGNALS,
        "if not self._active or not self._process.is_this_one():\n            self._advance_to",
        "if not self._active:\n            self._advance_to",
    ),
    # where to keep it
    Mutation(
        DIRECTORY,
        "if left.written is not None and file_identity(left.path) == left.written:",
        "if True:",
    ),
    Mutation(DIRECTORY, "            if not sync_if_equal(path, data):", "            if False:"),
    Mutation(DIRECTORY, "            left.named = True\n", ""),
    Mutation(DIRECTORY, "free = None, file_identity(path)", "free = (None,)"),
    Mutation(FILES, "if named is not None and file_identity(new) == named:", "if False:"),
    Mutation(FILES, "if named is None or file_identity(new) != named:", "if True:"),
    Mutation(FILES, "        if file_identity(new) is not None:\n", "        if False:\n"),
    Mutation(FILES, "        if file.read(len(data) + 1) != data:", "        if False:"),
    Mutation(LOCKING, "        _, descriptor = _descriptors.popitem()", "        return"),
    Mutation(LOCKING, "        if error.errno in NO_LOCKS:", "        if False:"),
    Mutation(CHECKPOINTER, "            if lock.is_held:\n", "            if True:\n"),
    Mutation(CHECKPOINTER, "            undo.callback(lock.close)\n", ""),
    Mutation(
        CHECKPOINTER,
        "        finally:\n            self._lock.close()",
        "        finally:\n            pass",
    ),
    Mutation(CHECKPOINTER, "        lock.close_with(saver)", "        pass"),
    Mutation(DIRECTORY, "            sync_folder(self.folder)\n        except", "        except"),
    Mutation(FILES, "        os.fsync(descriptor)\n    finally", "    finally"),
    Mutation(FILES, 'data = data if file.read(1) == b"\\n" else b"\\n" + data', "pass"),
    Mutation(
        "checkpoint/history.py",
        "if checkpoint is None or part.rank:",
        "if checkpoint is None:",
    ),
    Mutation(FILES, "            rest = rest[count:]", "            break"),
    Mutation("checkpoint/envelope.py", "!= digest:\n        raise", "== b'':\n        raise"),
    Mutation(
        "checkpoint/names.py",
        "return found if text.startswith(spelt) and found.part.is_possible else None",
        "return found",
    ),
    Mutation("checkpoint/names.py", "_part_in(match).ranks != self.part.ranks", "False"),
    Mutation(
        "checkpoint/ranks/part.py",
        "other.rank % self.ranks == self.rank",
        "other.rank == self.rank",
    ),
    Mutation(
        PARTS,
        "if part.rank == 0 and all(sibling in parts for sibling in part.siblings)",
        "if part.rank == 0",
    ),
    Mutation(PARTS, "if later > step and mine and part != WHOLE:", "if False:"),
    Mutation(PARTS, "if step < newest and step not in self._listed", "if step not in self._listed"),
    Mutation(PARTS, "if (checkpoint.step, checkpoint.part) != (step, part):", "if False:"),
    Mutation(
        "checkpoint/ranks/run.py",
        "shared_fingerprint(stage))",
        "shared_fingerprint(stage, of_rank=True))",
    ),
    Mutation("checkpoint/ranks/conflicts.py", "if part in (one, other) or", "if True or"),
    Mutation("checkpoint/ranks/conflicts.py", "(later, found) not in self._before", "True"),
    Mutation(
        "checkpoint/ranks/run.py", "_digest(_identity(resumed, run)) + work", '"0" * HALF + work'
    ),
    Mutation("checkpoint/ranks/run.py", "    if run.endswith(work):", "    if run:"),
    Mutation(RETENTION, "self._steps.find_settled_steps()", "self._steps.steps()"),
    Mutation(READING, "step = max(steps)", "step = min(steps)"),
    Mutation(READING, "if damaged or store.has_damaged():", "if damaged:"),
    Mutation(READING, "if checkpoint.step != step:", "if False:"),
    Mutation(RETENTION, "kept = set(steps[-self.latest :])", "kept = set(steps[: self.latest])"),
    Mutation(RETENTION, "firsts.setdefault(span, step)", "firsts[span] = step"),
    Mutation(SAVER, "stored.give(written)", "pass"),
    Mutation(SAVER, "self.stopped = self.stopped or bool(answer)", "self.stopped = bool(answer)"),
    Mutation(SAVER, "self._failures, self._pending = failures, None", "self._pending = None"),
    Mutation(SAVER, "done = replace(save.point, seconds=self.clock())", "done = save.point"),
    Mutation(LOOP, "        if step == done.step:\n            return\n", ""),
    Mutation(
        LOOP,
        "        self.finished = True\n        self._signals.close()",
        "        self._signals.close()",
    ),
    # origins
    Mutation("shadows/tapped.py", "[of_input.popleft().origin if", "[of_input.pop().origin if"),
    Mutation("shadows/tapped.py", "if len(found) == 1 and not (", "if found and not ("),
    Mutation("shadows/traced.py", "function = deepcopy(function)", "pass"),
    Mutation("shadows/expanded.py", "PartOrigin(whole, None, traced.origin)", "traced.origin"),
    Mutation(
        "groups/traced_rows.py",
        "documents.before[placed.numbers] + placed.begins",
        "placed.begins",
    ),
    Mutation("shadows/by_index.py", "(*inputs, name)", "(name, *inputs)"),
    Mutation("core/relation.py", "np.append(outputs, self.last[0])", "outputs"),
    Mutation("checkpoint/tracing.py", "one_for_all)", "1)"),
    Mutation(
        "checkpoint/tracing.py",
        "span.before < step <= span.last",
        "span.before <= step < span.last",
    ),
]
"""At least one in every package that moves items or keeps states."""
