import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.surroundings import Surroundings


@pytest.fixture
def before() -> Surroundings:
    return Surroundings.now()


def test_a_test_that_changes_nothing_leaks_nothing(before: Surroundings) -> None:
    assert before.leaks() == []


def test_a_leaked_variable_is_named_and_removed(before: Surroundings) -> None:
    os.environ["LEAKED"] = "1"
    assert before.leaks() == ["the environment variable LEAKED is now '1', it was None"]
    before.restore()
    assert "LEAKED" not in os.environ


def test_a_leaked_folder_is_named_and_left(before: Surroundings, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    assert before.leaks() == [f"the working folder is now {tmp_path}"]
    before.restore()
    assert Path.cwd() == before.cwd


def test_a_thread_that_does_not_end_in_time_is_named(before: Surroundings) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="straggler")
    thread.start()
    assert before.leaks(grace_s=0.01) == ["the thread straggler is alive"]
    end.set()
    assert before.leaks() == []


def test_a_child_that_does_not_end_in_time_is_named_and_killed(before: Surroundings) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert before.leaks(grace_s=0.01) == [f"the child process {child.pid} is alive"]
        before.restore()
        assert before.leaks() == []


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_moved_random_stream_is_named_and_put_back(library: str) -> None:
    draw = {"numpy": np.random.rand, "torch": pytest.importorskip("torch").rand}[library]
    before = Surroundings.now()
    draw(1)
    (leak,) = before.leaks()
    assert leak.startswith(f"the global random stream of {library} has moved")
    before.restore()
    assert before.leaks() == []


def test_a_test_may_use_the_global_streams_when_it_says_so(global_streams: None) -> None:
    np.random.rand(1)  # noqa: NPY002  # the global stream is what is tested
