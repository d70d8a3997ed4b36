"""`statekit top` under a real terminal, with the manager in another process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from statekit.manager import SessionStateManager
from statekit.watch.client import Client
from statekit.watch.picture import Device, Happening, Picture, Session, Value
from statekit.watch.server import serve
from statekit.watch.wire import Ask
from statekit_codegen.top_parts import View
from statekit_codegen.top_screen import _pressed, ended_by_signals
from statekit_codegen.top_view import layout
from tests.watch.serving import Serving
from tests.watch.terminals import ALTERNATE, NORMAL, terminal

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TOP = ("-m", "statekit_codegen", "top")


@contextmanager
def serving(
    tmp_path: Path, sessions: int = 3, socket: str | None = None, **environment: str
) -> Iterator[Serving]:
    folder = tmp_path / "s"
    folder.mkdir(mode=0o700, exist_ok=True)
    module = "tests.watch.serving_helper"
    place = socket or str(folder / "a.sock")
    argv = [sys.executable, "-m", module, place, str(tmp_path / "park"), str(sessions)]
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Serving(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One process for all tests that leave it alive."""
    with serving(tmp_path_factory.mktemp("serving"), sessions=30) as one:
        yield one


def top(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of the command in a pipe."""
    return subprocess.run(
        [sys.executable, *TOP, *argv],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_screen_when_watched_then_sessions_values_and_what_happens(served: Serving) -> None:
    """Sessions by bytes, the values of one, events as they come; the terminal is put back."""
    with terminal(*TOP, str(served.socket), "--every", "0.1") as screen:
        screen.wait_for("statekit top: toys")
        assert ALTERNATE in screen.raw
        assert "> " in screen.wait_for("q quit")
        assert not screen.echoes()
        screen.press("j")
        screen.wait_for("> ")
        screen.press("\x1b[B\x1b[A")
        screen.press("\r")
        screen.wait_for("value of ")
        screen.wait_for("StateObject")
        screen.press("\x1b")
        screen.wait_for("> ")
        screen.press("s")
        screen.wait_for("s sort: idle")
        served.do("begin robot-new")
        screen.wait_for("session 'robot-new': begins")
        served.do("drop robot-new")
        screen.wait_for("session 'robot-new': dropped")
        served.do("go_on robot-gone")
        screen.wait_for("session 'robot-gone': cannot be continued")
        screen.press("q")
        assert screen.end() == 0
        assert screen.raw.rstrip().endswith(NORMAL)
        assert screen.raw.count(ALTERNATE) == screen.raw.count(NORMAL) == 1


def test_screen_when_a_session_is_parked_then_it_is_seen(served: Serving) -> None:
    """Values that go to disk are shown there, and the event says so."""
    with terminal(*TOP, str(served.socket), "--every", "0.1", columns=160) as screen:
        screen.wait_for("q quit")
        for number in range(6):
            served.do(f"begin late-{number}")
        screen.wait_for(" parked on disk, ")
        screen.press("\x03")
        assert screen.end() == 0
        assert screen.raw.rstrip().endswith(NORMAL)


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM])
def test_signal_when_its_error_is_lost_then_still_known_to_have_come(one: signal.Signals) -> None:
    """An error that is raised in a callback of the garbage collector goes nowhere."""
    before = signal.getsignal(one)
    with ended_by_signals() as ended:
        assert not ended
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), one)
            time.sleep(5)
        assert ended == [one]
    assert signal.getsignal(one) is before


def test_screen_when_the_terminal_is_resized_then_it_is_laid_out_anew(served: Serving) -> None:
    """A wider terminal shows more columns, at once and without a new picture."""
    with terminal(*TOP, str(served.socket), "--every", "60", columns=60) as screen:
        assert "model" not in screen.wait_for("q quit")
        screen.resize(30, 120)
        screen.wait_for("model", 5)
        screen.press("q")
        assert screen.end() == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_screen_when_the_server_is_killed_then_it_ends_with_words(
    tmp_path: Path, how: signal.Signals
) -> None:
    """The terminal is put back, the message stays on it, the exit code is 2; so after `kill -9`,
    which leaves the socket's file: a client says so, and the next server there removes it."""
    with (
        serving(tmp_path) as served,
        terminal(*TOP, str(served.socket), "--every", "0.1") as screen,
    ):
        screen.wait_for("q quit")
        served.process.send_signal(how)
        assert screen.end() == 2
        after = screen.raw.rpartition(NORMAL)[2]
        assert "the server has ended" in after.replace("\r\n", " ")
        assert "Traceback" not in screen.text
        served.process.wait()
    assert served.socket.exists()
    done = top(str(served.socket), "--once")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nobody listens; its process has ended" in done.stderr
    manager = SessionStateManager(7)
    with serve(manager, served.socket), Client(served.socket) as client:
        assert client.ask(Ask()).max_sessions == 7


def test_screen_when_ended_by_a_signal_then_the_terminal_is_put_back(served: Serving) -> None:
    """Nobody is left with an invisible cursor and no echo."""
    with terminal(*TOP, str(served.socket)) as screen:
        screen.wait_for("q quit")
        os.kill(screen.pid, signal.SIGTERM)
        assert screen.end() == 0
        assert screen.raw.rstrip().endswith(NORMAL)
        assert "\x1b[?25h" in screen.raw


def test_screen_when_the_terminal_can_do_nothing_then_one_picture(served: Serving) -> None:
    """No escapes are sent to a terminal that does not know them."""
    with terminal(*TOP, str(served.socket), environment={"TERM": "dumb"}) as screen:
        assert screen.end() == 0
        assert "statekit top: toys" in screen.raw
        assert "\x1b" not in screen.raw


def test_screen_when_there_is_no_keyboard_then_it_is_shown_until_ended(served: Serving) -> None:
    """Standard input may be anything."""
    command = " ".join(["exec", sys.executable, *TOP, "$0", "< /dev/null"])
    shell = f"import os; os.execvp('sh', ['sh', '-c', {command!r}, {str(served.socket)!r}])"
    with terminal("-c", shell) as screen:
        screen.wait_for("q quit")
        os.kill(screen.pid, signal.SIGTERM)
        assert screen.end() == 0
        assert screen.raw.rstrip().endswith(NORMAL)


def test_process_when_found_by_its_number_or_alone_then_shown(tmp_path: Path) -> None:
    """Without arguments the only manager is shown, stale sockets aside."""
    private = {"XDG_RUNTIME_DIR": str(tmp_path)}
    none = top("--once", **private)
    assert none.returncode == 2
    assert "no process shows a manager" in none.stderr
    (tmp_path / "statekit").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "statekit" / "1.sock"))
    with serving(tmp_path, socket="-", **private) as served:
        for argv in ((), (str(served.process.pid),)):
            done = top("--once", *argv, **private)
            assert (done.returncode, done.stderr) == (0, "")
            assert f"(process {served.process.pid})" in done.stdout


def test_pipe_when_watched_then_one_picture_as_plain_text(served: Serving) -> None:
    """In a pipe there is no live view; 80 columns, no escapes, nothing at the ends of lines."""
    once = top(str(served.socket), "--once", "--rows", "5")
    piped = top(str(served.socket), "--rows", "5", COLUMNS="100")
    values = top(str(served.socket), "--once", "--session", "robot-0")
    nobody = top(str(served.socket), "--once", "--session", "nobody")
    data = top(str(served.socket), "--json", "--session", "robot-0")
    assert (once.returncode, once.stderr) == (0, "")
    lines = once.stdout.splitlines()
    found = json.loads(data.stdout)
    assert found["schema"] == "statekit.top/1"
    assert lines[0].startswith("statekit top: toys (process ")
    assert lines[0].endswith(f"{found['session_count']} of at most 20000 sessions")
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert "\x1b" not in once.stdout
    assert f"and {found['session_count'] - 5} more" in once.stdout
    assert max(map(len, piped.stdout.splitlines())) > 80
    assert "released" in values.stdout
    assert (nobody.returncode, "session nobody is not there" in nobody.stdout) == (1, True)
    assert {one["value"] for one in found["values"]} >= {"cache", "note"}


def test_ids_when_a_client_chose_them_then_no_terminal_is_driven(served: Serving) -> None:
    """Escapes, line ends and marks that turn text round are shown, not obeyed."""
    served.do(r"begin \x1b[2J\x1b]0;owned\x07\n\u202e[red]x[/red]")
    once = top(str(served.socket), "--once", COLUMNS="200").stdout
    with terminal(*TOP, str(served.socket), columns=160) as screen:
        screen.wait_for("owned")
        screen.press("q")
        screen.end()
    for text in (once, screen.raw):
        assert r"\x1b[2J\x1b]0;owned\x07\n\u202e[red]x[/red]" in text
        assert "\x1b[2J\x1b]0" not in text
        assert "\u202e" not in text


def test_colours_when_no_color_is_set_then_there_are_none(served: Serving) -> None:
    """What colours say is said in words and signs too."""
    with terminal(*TOP, str(served.socket)) as coloured:
        coloured.wait_for("q quit")
        coloured.press("q")
        coloured.end()
    with terminal(*TOP, str(served.socket), environment={"NO_COLOR": "1"}) as plain:
        plain.wait_for("q quit")
        plain.press("q")
        plain.end()
    assert "\x1b[32m" in coloured.raw or "\x1b[33m" in coloured.raw
    assert not any(f"\x1b[{code}m" in plain.raw for code in range(30, 38))


def test_keys_when_they_come_together_or_are_unknown_then_the_known_ones_count() -> None:
    """Arrows in both forms, letters, and nothing for a function key or a paste of noise."""
    pressed = list(_pressed(b"jk\x1b[A\x1bOB\rqs"))
    assert pressed == ["down", "up", "up", "down", "enter", "quit", "sort"]
    assert list(_pressed(b"\x1b")) == ["back"]
    assert list(_pressed(b"\x1b[15~")) == []
    assert list(_pressed("äxy".encode())) == []


def picture(sessions: int, **more: Any) -> Picture:
    """A picture of so many sessions."""
    rows = tuple(
        Session(f"s{number}", "toy", 0, 100.0 * number, True, {"cpu": 1000}, {})
        for number in range(sessions)
    )
    given: dict[str, Any] = {
        "pid": 1,
        "name": "toys",
        "session_count": sessions,
        "max_sessions": 64,
        "leases": 0,
        "hits": 1,
        "misses": 2,
        "evictions": 3,
        "devices": (Device("cpu", 2000, 1000), Device("cuda:0", 5, None)),
        "parked": {},
        "sessions": rows,
        "happenings": (),
        "values_of": None,
        "values": None,
        **more,
    }
    return Picture(**given)


def lines_of(shown: Picture, view: View, height: int | None, width: int = 80) -> list[str]:
    text = StringIO()
    Console(file=text, width=width, highlight=False).print(layout(shown, view, width, height))
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("height", [10, 24, 50])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_layout_when_the_screen_is_of_any_size_then_it_fits_and_the_selected_row_is_seen(
    height: int, width: int
) -> None:
    """Whatever row is selected, however small the screen."""
    news = tuple(Happening(n, 0.0, "parked", n % 2 == 0, f"event {n} " * 9) for n in range(30))
    view = View()
    for selected in (0, 5, 63, 31, 0):
        view.selected = f"s{selected}"
        lines = lines_of(picture(64, happenings=news), view, height, width)
        assert len(lines) <= max(height, 13)
        assert all(len(line) <= width for line in lines)
        assert any(line.startswith(f"> s{selected} ") for line in lines)
        assert any("event 29" in line for line in lines)


def test_layout_when_over_budget_then_said_in_words_and_a_gone_selection_moves() -> None:
    """Colours repeat it; the first row is selected where the selected session is gone."""
    view = View(selected="gone")
    lines = lines_of(picture(3), view, 24)
    assert view.selected == "s0"
    assert "over budget" in lines[1]
    assert "200%" in lines[1]
    assert lines[2].split() == ["cuda:0", "5", "B,", "no", "budget"]
    assert lines[7].split()[:4] == ["s1", "toy", "-", "2m"]


def test_layout_when_there_is_nothing_then_it_says_so() -> None:
    """No sessions, no values, no such session."""
    assert "no sessions" in lines_of(picture(0), View(live=False), None)
    values = View(selected="s0", values=True, live=False)
    assert "session s0 holds nothing" in lines_of(picture(1, values=()), values, None)
    assert "session s0 is not there" in lines_of(picture(1), values, None)
    many = tuple(Value(f"v{n}", "attrs", "resident", {"cpu": n}, "carried") for n in range(99))
    view = View(selected="s0", values=True, first=500)
    lines = lines_of(picture(1, values=many, values_of="s0"), view, 24)
    assert any(line.startswith("v0 ") for line in lines)
    assert len(lines) <= 24
