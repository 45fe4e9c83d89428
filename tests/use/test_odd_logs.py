"""Lines of workload logs with values that are possible but unusual."""

from __future__ import annotations

from pathlib import Path

import pytest

from ugm.simulation import JobMapping, read_swf

LINE = "1 0 10 30 {allocated} -1 -1 {requested} 3600 -1 1 6 2 -1 1 0 -1 -1\n"


@pytest.mark.parametrize(("allocated", "requested", "cores"), [(0, 1, 1), (0, 8, 8), (-1, 4, 4), (2, 4, 2), (0, -1, 1)])
def test_no_allocated_processors(tmp_path: Path, allocated: int, requested: int, cores: int) -> None:
    """A job without allocated processors counts with the requested number."""
    text = LINE.format(allocated=allocated, requested=requested)
    log = tmp_path / "log.swf"
    log.write_text(text)
    (job,) = JobMapping().jobs(read_swf(log))
    assert job.usage["vcore"] == cores * 1000
