"""States resume in another process, with another hash seed."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from golden.write import repr_of
from support.graphs import catalogue, write_data

import resumable as rs

CODE = """
import json, sys
from itertools import islice
from pathlib import Path
sys.path[:0] = {paths!r}
import resumable as rs
from golden.write import repr_of
from support.graphs import catalogue
made = catalogue(Path({folder!r}))
got = {{}}
for name, state in json.load(sys.stdin).items():
    with made[name]().resume(rs.loads(bytes.fromhex(state))) as iterator:
        got[name] = [repr_of(item) for item in islice(iterator, 20)]
json.dump(got, sys.stdout)
"""


@pytest.mark.parametrize("hash_seed", [pytest.param("0", marks=pytest.mark.deep), "12345"])
def test_every_pipeline_resumes_in_another_process(tmp_path: Path, hash_seed: str) -> None:
    write_data(tmp_path)
    states, expected = {}, {}
    for name, make in catalogue(tmp_path).items():
        with iter(make()) as iterator:
            list(islice(iterator, 6))
            states[name] = rs.dumps(iterator.get_state()).hex()
            expected[name] = [repr_of(item) for item in islice(iterator, 20)]
    tests = str(Path(__file__).parents[1])
    code = CODE.format(paths=[tests, str(Path(tests).parent)], folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(states),
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": hash_seed},
        check=True,
    )
    assert json.loads(done.stdout) == expected
