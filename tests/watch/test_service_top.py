"""`statekit top` of a service that runs in another process, and its layout at any size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import attrs
import pytest
from rich.console import Console

from statekit.watch.following import Seen
from statekit.watch.picture import Happening
from statekit.watch.service_picture import ServicePicture
from statekit.watch.service_values import picture_of
from statekit.watch.wire import SORTS, Ask, answer_line, read_answer
from statekit_codegen.top_parts import View
from statekit_codegen.top_view import layout
from tests.watch.service_scenes import lost, of_replica, of_service
from tests.watch.serving import Serving
from tests.watch.terminals import NORMAL, terminal

ROOT = Path(__file__).parents[2]
TOP = ("-m", "statekit_codegen", "top")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("service") / "s"
    folder.mkdir(mode=0o700)
    argv = [sys.executable, "-m", "tests.watch.service_helper", str(folder / "a.sock")]
    process = subprocess.Popen(
        argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Serving(process)
    finally:
        process.kill()
        process.communicate()


def top(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *TOP, *argv],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_pipe_when_a_service_is_watched_then_its_replicas_as_plain_text(served: Serving) -> None:
    """80 columns, no escapes; JSON has the picture's fields; a session's values are not there."""
    once = top(str(served.socket), "--once", "--sort", "id")
    data = top(str(served.socket), "--json", "--rows", "2")
    values = top(str(served.socket), "--once", "--session", "robot-0")
    assert (once.returncode, once.stderr) == (0, "")
    lines = once.stdout.splitlines()
    assert lines[0].startswith("statekit top: service toys (process ")
    assert lines[0].endswith("3 replicas, 3 sessions")
    assert lines[1] == "placed 3   refused 0   moves 0   restores 0"
    header = "replica            state     sessions               cpu  steps/s  waiting  moves"
    assert lines[3].split() == header.split()
    assert [line.split()[:3] for line in lines[4:7]] == [[n, "serving", "1/8"] for n in "abc"]
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert "\x1b" not in once.stdout
    found = json.loads(data.stdout)
    assert (found["schema"], found["replica_count"]) == ("statekit.top.service/1", 3)
    assert len(found["replicas"]) == 2
    assert found["replicas"][0]["devices"][0]["device"] == "cpu"
    assert (values.returncode, values.stdout) == (2, "")
    assert "a service knows no values of sessions" in values.stderr


def test_screen_when_a_service_is_watched_then_replicas_and_what_happens(served: Serving) -> None:
    """Rows to select, one replica in full, news as it comes, hostile ids shown and not obeyed."""
    with terminal(*TOP, str(served.socket), "--every", "0.1") as screen:
        screen.wait_for("statekit top: service toys")
        assert "> " in screen.wait_for("q quit")
        screen.press("j")
        screen.press("\r")
        screen.wait_for("found no room")
        screen.press("\x1b")
        screen.wait_for("s sort: fullest")
        screen.press("s")
        screen.wait_for("s sort: quietest")
        served.do("drain a")
        screen.wait_for("replica 'a' drains")
        served.do(r"begin \x1b[2J\u202e[red]x[/red]")
        served.do("kill b")
        screen.wait_for("replica 'b' is dead")
        screen.wait_for("lost session")
        screen.press("q")
        assert screen.end() == 0
        assert screen.raw.rstrip().endswith(NORMAL)
        assert "\x1b[2J\u202e" not in screen.raw
    once = top(str(served.socket), "--once")
    assert "no snapshots are taken" in once.stdout
    assert "dead" in once.stdout


def picture(count: int, **more: Any) -> ServicePicture:
    """A service of so many replicas."""
    replicas = [
        of_replica(
            f"r{number}",
            promised={"cpu": 10 * number, "cuda:0": 7 * number},
            budgets={"cpu": 1000},
            sessions=number % 4,
            steps=number,
        )
        for number in range(count)
    ]
    status = of_service(*replicas, lost=more.pop("lost", ()))
    shown = picture_of(Seen(status, 0.0, None, {"r0": 12.34, "r1": 1234.5}), Ask(1000), "toys", ())
    return attrs.evolve(shown, **more)


def lines_of(shown: ServicePicture, view: View, height: int | None, width: int = 80) -> list[str]:
    text = StringIO()
    Console(file=text, width=width, highlight=False).print(layout(shown, view, width, height))
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("height", [12, 24, 50])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_layout_when_the_screen_is_of_any_size_then_it_fits_and_the_selected_row_is_seen(
    height: int, width: int
) -> None:
    """Whatever is selected, lost and told, however small the screen."""
    news = tuple(Happening(n, 0.0, "moved", n % 2 == 0, f"event {n} " * 9) for n in range(30))
    gone = tuple(lost(f"s{n}", "r1", n) for n in range(50))
    shown = picture(64, happenings=news, lost=gone)
    view = View()
    for selected in (0, 5, 63, 31, 0):
        view.selected = f"r{selected}"
        lines = lines_of(shown, view, height, width)
        assert len(lines) <= max(height, 20)
        assert all(len(line) <= width for line in lines)
        assert any(line.startswith(f"> r{selected} ") for line in lines)
        assert any("event 29" in line for line in lines)
        assert any("s0 " in line for line in lines)


def test_layout_when_it_is_wide_then_hosts_and_more_devices_are_shown() -> None:
    """What there is room for; rates with a digit where they are small."""
    narrow = lines_of(picture(2), View(live=False, sort="id"), None)
    wide = lines_of(picture(2), View(live=False, sort="id"), None, 120)
    assert "host" not in narrow[3]
    assert wide[3].split() == [
        *("replica", "host", "state", "sessions", "cpu", "cuda:0", "steps/s", "waiting", "moves")
    ]
    assert "node-1" in wide[4]
    rates = {line.split()[0]: line.split()[-3] for line in wide[4:6]}
    assert rates == {"r0": "12.3", "r1": "1234"}


def test_layout_when_the_directory_is_silent_then_it_says_since_when_and_why() -> None:
    """Old figures are not shown as new ones."""
    shown = picture(1, problem="it does not answer", age_s=12.0)
    lines = lines_of(shown, View(live=False), None, 100)
    words = "the directory does not answer, the last time was 12 s ago: it does not answer"
    assert lines[1] == words
    never = picture(0, problem="refused", age_s=None)
    assert "never: refused" in lines_of(never, View(live=False), None)[1]
    assert "no replicas" in lines_of(never, View(live=False), None)


def test_layout_when_one_replica_is_chosen_then_all_that_is_known_of_it() -> None:
    """Its process, devices, counts and snapshots."""
    one = of_replica(
        "a",
        budgets={"cuda:0": 2000},
        promised={"cuda:0": 1000, "disk": 5},
        snapshot_age_s=3.2,
        unsaved_steps=1,
        unsaved={"x": "disk full"},
        counts={"begun": 5, "came": 1, "went": 2, "restored": 3, "lost": 4, "refused": 6},
    )
    shown = picture_of(Seen(of_service(one), 0.0, None, {}), Ask(), "toys", ())
    text = "\n".join(lines_of(shown, View(values=True, selected="a"), 24))
    for words in (
        "a, serving, on node-1 (process 7)",
        "1000 B held or promised, 50% of 2.0 KiB",
        "5 B held or promised, no budget",
        "5, 6 found no room",
        "1 came, 2 left",
        "3 out of snapshots, 4 lost with it",
        "the oldest 3 s ago, 1 step not saved, 1 session could not be saved",
    ):
        assert words in text


@pytest.mark.parametrize("sort", SORTS)
def test_replicas_when_sorted_then_as_asked_and_dead_ones_are_not_full(sort: str) -> None:
    """Fullest, quietest, busiest, by name."""
    status = of_service(
        of_replica("a", promised={"cpu": 500}, waiting=1),
        of_replica("b", promised={"cpu": 900}),
        of_replica("c", promised={"cpu": 1000}, state="dead", running=9),
    )
    seen = Seen(status, 0.0, None, {"a": 1.0, "b": 2.0, "c": 0.5})
    found = "".join(one.name for one in picture_of(seen, Ask(sort=sort), "x", ()).replicas)
    assert found == {"bytes": "bac", "idle": "cab", "leases": "cab", "id": "abc"}[sort]


def test_wire_when_a_service_is_sent_then_it_arrives_whole() -> None:
    """Through JSON and back; a field of another type is refused with its place."""
    sent = picture(3, lost=(lost("s", "r1"),), happenings=(Happening(1, 2.0, "lost", True, "x"),))
    line = answer_line(sent)
    assert read_answer(line) == sent
    with pytest.raises(ValueError, match=r"\$\.replicas\[1\]\.waiting: a str, not int"):
        read_answer(line.replace(b'"waiting":0', b'"waiting":"0"').replace(b'"0"', b"0", 1))
