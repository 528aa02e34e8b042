"""Which tests belong to both tiers."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from support.tiers import names_of_tier


def test_a_test_that_depends_on_the_tier_is_found_by_whatever_it_uses(tmp_path: Path) -> None:
    module = tmp_path / "test_some.py"
    module.write_text(
        dedent("""
            import pytest
            from support.command import run_code as run, run_python
            from support.tiers import is_deep, thinned

            COUNT = 10 if is_deep() else 1
            DOUBLE = 2 * COUNT

            @pytest.fixture
            def many():
                return DOUBLE

            @pytest.mark.parametrize("place", thinned(range(9), 3, __name__))
            def test_by_cases(place): pass
            def test_by_a_fixture(many): pass
            def test_by_a_helper(): run("")
            def test_of_one_tier(): run_python("")
            class TestAll:
                def test_by_a_constant(self): assert COUNT
        """)
    )
    assert names_of_tier(module) == {
        "COUNT", "DOUBLE", "TestAll", "is_deep", "many", "run",
        "test_by_a_fixture", "test_by_a_helper", "test_by_cases", "thinned",
    }  # fmt: skip
