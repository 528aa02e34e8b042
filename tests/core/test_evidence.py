"""What is known of data: small, and no reason to refuse a state that knows something else."""

from __future__ import annotations

import json

import pytest

from resumable.core.evidence import MOST_MARKS, Evidence


@pytest.mark.parametrize("count", [1, 2, MOST_MARKS, MOST_MARKS + 1, 1000])
def test_evidence_is_small_and_tells_about_where(count: int) -> None:
    names, digests = [f"{n}.tar" for n in range(count)], [b"%d" % n for n in range(count)]
    evidence = Evidence("ends", digests, names)
    saved = json.loads(json.dumps(evidence.as_json()))
    assert len(saved["ends"]) <= 12 + 2 * MOST_MARKS
    assert evidence.contradiction(saved) is None
    changed = Evidence("ends", [*digests[:-1], b"other"], names)
    reason = changed.contradiction(saved) or ""
    if count <= MOST_MARKS:
        assert reason.startswith(f"{names[-1]} has other content")
    else:
        assert f" to {names[-1]} has other content" in reason
    assert Evidence("index", digests, names).contradiction(saved) is None
    assert "must be a dict" in (evidence.contradiction([1]) or "")
    assert evidence.contradiction({"ends": 1}) is not None
