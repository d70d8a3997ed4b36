"""The server: pictures over a real socket, several clients, rude ones, dead ones, and its end."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.errors import WatchError
from statekit.events import ParkFailed
from statekit.manager import SessionStateManager
from statekit.watch import private, server, taking, wire
from statekit.watch.client import Client, find
from statekit.watch.server import Server, serve
from statekit.watch.taking import take
from statekit.watch.wire import Ask
from tests.pressure.toys import DECLARED, KEPT, VALUES, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A private folder with a short path."""
    place = tmp_path / "s"
    place.mkdir(mode=0o700)
    return place


@pytest.fixture
def manager(tmp_path: Path) -> SessionStateManager:
    """A manager that has had to park."""
    manager = SessionStateManager(
        budgets={"cpu": 2 * DECLARED, "disk": "1MiB"}, park_folder=tmp_path / "park"
    )
    for number in range(4):
        begin(manager, f"robot-{number}")
    return manager


@pytest.fixture
def watched(manager: SessionStateManager, folder: Path) -> Iterator[Server]:
    with serve(manager, folder / "a.sock") as one:
        yield one


def begin(manager: SessionStateManager, key: str) -> None:
    with manager.lease(key, begin=KEPT) as session:
        for name in VALUES:
            write(session, name, 1)


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "statekit-watch"]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def raw(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(str(path))
    return connection


def answer_to(path: Path, sent: bytes) -> dict[str, Any]:
    """What the server says to these bytes; {} where it hangs up."""
    with raw(path) as connection:
        line = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        with contextlib.suppress(ConnectionError):
            line = connection.makefile("rb").readline()
    return dict(json.loads(line)) if line else {}


def test_picture_when_asked_then_it_says_what_stats_says(
    manager: SessionStateManager, watched: Server
) -> None:
    """Devices, budgets, parked bytes, counters, and every session with its bytes and its model."""
    with manager.lease("robot-3"), Client(watched.path) as client:
        picture, stats = client.ask(Ask()), manager.stats()
    assert picture.pid == os.getpid()
    assert picture.session_count == len(picture.sessions) == stats["sessions"] == 4
    assert (picture.hits, picture.misses) == (stats["hits"], stats["misses"])
    assert picture.leases == 1
    for device in picture.devices:
        assert device.nbytes == stats[f"nbytes:{device.device}"]
        assert device.budget == stats[f"budget_nbytes:{device.device}"]
    assert picture.parked == {"disk": stats["parked_nbytes:disk"]}
    totals = [one.total for one in picture.sessions]
    assert totals == sorted(totals, reverse=True)
    assert sum(totals) == stats["total_nbytes"]
    assert {one.model for one in picture.sessions} == {"toy"}
    assert [one.session_id for one in picture.sessions if one.leases] == ["robot-3"]


def test_values_when_a_session_is_named_then_its_values_and_where_they_are(
    manager: SessionStateManager, watched: Server
) -> None:
    """Parked, released and live values; bytes of what was parked together are there once."""
    with Client(watched.path) as client:
        picture = client.ask(Ask(values_of="robot-0"))
        assert picture.values is not None
        assert {one.value for one in picture.values} == set(VALUES)
        session = next(one for one in picture.sessions if one.session_id == "robot-0")
        assert sum(sum(one.nbytes.values()) for one in picture.values) == session.total
        assert any(one.where == "parked in disk" for one in picture.values)
        assert client.ask(Ask(values_of="nobody")).values is None


def test_happenings_when_asked_again_then_only_what_is_new(
    manager: SessionStateManager, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event once, in order, and a bounded number of them."""
    monkeypatch.setattr(server, "_FRESH_S", 0.0)
    with serve(manager, folder / "a.sock") as watched, Client(watched.path) as client:
        assert client.ask(Ask()).happenings == ()
        manager.drop_session("robot-0")
        (told,) = client.ask(Ask()).happenings
        assert (told.kind, told.warning) == ("dropped", False)
        manager._events.publish(ParkFailed("x\n", 0.0, ("cache",), "disk", "full " * 500))
        (told,) = client.ask(Ask(since=told.number)).happenings
        assert told.warning
        assert len(told.text) <= 512
        for _ in range(600):
            manager._events.publish(ParkFailed("x", 0.0, ("cache",), "disk", "full"))
        assert len(client.ask(Ask(since=told.number, sort="id")).happenings) == 256


@pytest.mark.parametrize("sort", wire.SORTS)
def test_top_when_there_are_ten_thousand_sessions_then_the_first_few_in_order(
    folder: Path, sort: str
) -> None:
    """The largest, the longest idle, those in use, or by id; the others are counted."""
    now = [0.0]
    manager = SessionStateManager(20_000, clock=lambda: now[0])
    for number in range(10_000):
        session = manager.get_or_create_session(f"s{number:05}")
        session.attrs["x"] = torch.empty(1 + number * 7919 % 10_000, dtype=torch.uint8)
    for number in range(5):
        with manager.lease(f"s{number:05}"):
            now[0] += 1
    lease = manager.lease("s00007")
    lease.begin()
    with serve(manager, folder / "a.sock") as watched, Client(watched.path, 60) as client:
        picture = client.ask(Ask(top=3, sort=sort))
    lease.end()
    ids = [one.session_id for one in picture.sessions]
    assert picture.session_count == 10_000
    if sort == "bytes":
        assert [one.total for one in picture.sessions] == [10_000, 9_999, 9_998]
    else:
        wanted = {"idle": ["s00000", "s00001", "s00002"], "id": ["s00000", "s00001", "s00002"]}
        assert ids == wanted[sort] if sort in wanted else ids[0] == "s00007"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\n", "no JSON"),
        (b"GET / HTTP/1.1\r\n\r\n", "no JSON"),
        (b"\xff\xfe\x00\n", "no JSON"),
        (b"[" * 9000 + b"\n", "no JSON"),
        (b"[]\n", "no message of statekit"),
        (b'{"statekit": 2, "ask": "picture"}\n', "version 2; this side speaks 1"),
        (b'{"statekit": 1, "ask": "shell"}\n', "asks for 'shell'"),
        (b'{"statekit": 1, "ask": "picture", "top": "all"}\n', "$.top: a str, not int"),
        (b'{"statekit": 1, "ask": "picture", "top": true}\n', "$.top: a bool, not int"),
        (b'{"statekit": 1, "ask": "picture", "top": 100000}\n', "$.top: from 0 to 1000"),
        (b'{"statekit": 1, "ask": "picture", "sort": "rm"}\n', "$.sort: one of"),
        (b'{"statekit": 1, "ask": "picture", "values_of": 5}\n', "$.values_of: a int, not str"),
        (b" " * 16_385 + b"\n", "a line of more than 16384 bytes"),
    ],
)
def test_client_when_it_sends_garbage_then_it_is_told_and_others_are_served(
    watched: Server, sent: bytes, said: str
) -> None:
    """Each mistake has its words; the server goes on."""
    assert said in answer_to(watched.path, sent)["error"]
    with Client(watched.path) as client:
        assert client.ask(Ask()).session_count == 4


def test_client_when_it_never_ends_its_line_then_it_is_dropped(watched: Server) -> None:
    """Memory is bounded: a line has a longest length."""
    with raw(watched.path) as connection, pytest.raises(OSError):  # noqa: PT011  # EPIPE or reset
        for _ in range(1000):
            connection.sendall(b"x" * 4096)
            time.sleep(0.001)
    wait_until(lambda: not watched._clients)


def test_client_when_it_does_not_read_then_others_are_served_and_the_manager_works(
    manager: SessionStateManager, watched: Server
) -> None:
    """A client that asks and never listens holds nobody up, nor one that dies in the middle."""
    slow = raw(watched.path)
    slow.settimeout(0.05)
    with contextlib.suppress(OSError):
        for _ in range(200):
            slow.sendall(wire.ask_line(Ask(top=1000)) * 10)
    dead = raw(watched.path)
    dead.sendall(wire.ask_line(Ask())[:-5])
    dead.close()
    begin(manager, "while it is slow")
    with Client(watched.path) as one, Client(watched.path) as two:
        assert one.ask(Ask()).session_count == two.ask(Ask()).session_count == 5
    assert len(threads()) == 1
    slow.close()
    wait_until(lambda: not watched._clients)


def test_clients_when_there_are_many_then_one_thread_serves_them_and_too_many_are_told(
    watched: Server,
) -> None:
    """Sixteen at once; the next is told why it gets nothing."""
    clients = [Client(watched.path) for _ in range(16)]
    assert {one.ask(Ask(top=0)).session_count for one in clients} == {4}
    assert len(threads()) == 1
    assert answer_to(watched.path, b"")["error"] == "16 clients watch already"
    for one in clients:
        one.close()
    wait_until(lambda: not watched._clients)
    with Client(watched.path) as again:
        assert again.ask(Ask()).session_count == 4


def test_manager_when_a_picture_is_being_taken_then_it_is_not_waited_for(
    manager: SessionStateManager, watched: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the server takes, sessions begin, and events are kept for later."""
    go_on = threading.Event()

    def slow(*arguments: Any) -> Any:
        assert go_on.wait(10)
        return take(*arguments)

    monkeypatch.setattr(taking, "take", slow)
    with Client(watched.path) as client:
        asking = threading.Thread(target=client.ask, args=(Ask(),))
        asking.start()
        begin(manager, "meanwhile")
        manager.drop_session("meanwhile")
        go_on.set()
        asking.join()
        kinds = [one.kind for one in client.ask(Ask(sort="id")).happenings]
    assert "created" in kinds
    assert "dropped" in kinds


def test_values_when_their_own_code_fails_then_a_warning_and_the_others_are_shown(
    manager: SessionStateManager, folder: Path
) -> None:
    """One broken value takes no picture and no scrape down."""

    class Broken:
        def nbytes_by_device(self, seen: Any) -> dict[str, int]:
            raise OSError("the pool is gone")

    manager.get_or_create_session("broken").attrs["pool"] = Broken()
    with pytest.warns(UserWarning, match="'broken' was not looked at.*the pool is gone"):
        assert take(manager, Ask(), "toys", ()).session_count == 5


def test_picture_when_it_cannot_be_taken_then_the_client_is_told_and_the_server_goes_on(
    watched: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of ours is words at the other end."""
    with Client(watched.path) as client:
        with monkeypatch.context() as patch:
            patch.setattr(taking, "take", lambda *arguments: 1 // 0)
            with pytest.raises(WatchError, match="no picture could be taken: ZeroDivisionError"):
                client.ask(Ask())
        assert client.ask(Ask(sort="id")).session_count == 4


def test_socket_when_served_then_private_and_gone_with_its_close(
    manager: SessionStateManager, folder: Path
) -> None:
    """Mode 0600 in a folder of 0700; nothing is left: no file, no thread, no subscriber."""
    with serve(manager, folder / "a.sock") as watched:
        assert stat.S_IMODE(watched.path.lstat().st_mode) == 0o600
        assert len(threads()) == 1
        client = Client(watched.path)
    watched.close()
    assert not watched.path.exists()
    assert threads() == []
    assert manager._events._subscribers == ()
    with pytest.raises(WatchError, match="the server has ended"):
        client.ask(Ask())
    client.close()


def test_server_when_its_manager_is_gone_then_it_ends(folder: Path) -> None:
    """It keeps no manager alive, and what nobody closed closes itself."""
    manager = SessionStateManager()
    watched = serve(manager, folder / "a.sock")
    with Client(watched.path) as client:
        client.ask(Ask())
        del manager
        gc.collect()
        wait_until(lambda: threads() == [])
        with pytest.raises(WatchError):
            client.ask(Ask())
    assert not watched.path.exists()


def test_child_when_a_server_was_forked_then_it_holds_no_socket_of_its(
    folder: Path,
) -> None:
    """A worker that lives on when its parent is killed does not keep clients waiting."""
    code = (
        "import os, signal, sys, time, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from statekit.manager import SessionStateManager\n"
        "from statekit.watch.server import serve\n"
        "manager = SessionStateManager()\n"
        "server = serve(manager, sys.argv[1])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    server.close()\n"
        "    os.close(1), os.close(2)\n"
        "    time.sleep(60)\n"
        "print(child, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = folder / "a.sock"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    try:
        assert path.exists()
        with pytest.raises(WatchError, match="nobody listens; its process has ended"):
            Client(path, 1.0)
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)


def test_default_folder_when_two_managers_are_served_then_each_has_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made with mode 0700, under the process's number; found by it, and by nothing if alone."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    one, two = SessionStateManager(), SessionStateManager()
    with pytest.raises(WatchError, match="no process shows a manager"):
        find(None)
    with serve(one) as first:
        assert stat.S_IMODE((tmp_path / "statekit").stat().st_mode) == 0o700
        assert first.path == tmp_path / "statekit" / f"{os.getpid()}.sock"
        assert find(None) == find(str(os.getpid())) == find(str(first.path)) == first.path
        with serve(two, name="second") as second:
            assert second.path.name == f"{os.getpid()}-2.sock"
            with pytest.raises(WatchError, match=r"several are shown: \d+\.sock, "):
                find(None)
            with Client(second.path) as client:
                assert client.ask(Ask()).name == "second"
    with pytest.raises(WatchError, match="process 1 shows no manager"):
        find("1")


def test_folder_when_others_could_write_there_then_refused_by_both_sides(
    manager: SessionStateManager, folder: Path
) -> None:
    """Who can write the folder could put another socket there."""
    with serve(manager, folder / "a.sock") as watched:
        folder.chmod(0o720)
        with pytest.raises(WatchError, match=r"others can write there \(mode 0720\)"):
            serve(manager, folder / "b.sock")
        with pytest.raises(WatchError, match="others can write there"):
            Client(watched.path)
        folder.chmod(0o700)


def test_folder_when_it_is_a_link_or_missing_then_refused(
    manager: SessionStateManager, folder: Path
) -> None:
    """A link could lead anywhere later on."""
    link = folder.parent / "link"
    link.symlink_to(folder)
    for place in (link, folder / "missing"):
        with pytest.raises(WatchError, match="it is no folder"):
            serve(manager, place / "a.sock")
    (folder / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(WatchError, match="something else is there"):
        serve(manager, folder / "file")
    with pytest.raises(WatchError, match="it is no socket"):
        Client(folder / "file")
    with pytest.raises(WatchError, match="there is no socket"):
        Client(folder / "missing.sock")
    with pytest.raises(WatchError, match="longer than 103 bytes"):
        serve(manager, folder / ("x" * 120))


def test_folder_when_another_user_owns_it_then_refused(
    manager: SessionStateManager, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who owns the folder could give others access; nor is another's socket opened."""
    with serve(manager, folder / "a.sock") as watched:
        mine = os.geteuid()
        monkeypatch.setattr(private.os, "geteuid", lambda: mine + 1)
        with pytest.raises(WatchError, match=f"user {mine} owns it"):
            serve(manager, folder / "b.sock")
        with pytest.raises(WatchError, match=f"user {mine} owns it"):
            Client(watched.path)


def test_peer_when_it_is_another_user_then_hung_up_on(
    watched: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says who connects; a socket that leaked out shows nothing."""
    if not hasattr(socket, "SO_PEERCRED"):
        pytest.skip("this platform does not say who is at the other end")
    mine = os.geteuid()
    monkeypatch.setattr(private.os, "geteuid", lambda: mine + 1)
    assert answer_to(watched.path, wire.ask_line(Ask())) == {}
    monkeypatch.undo()
    with Client(watched.path) as client:
        assert client.ask(Ask()).session_count == 4


def test_place_when_taken_then_refused_and_when_stale_then_taken_over(
    manager: SessionStateManager, folder: Path
) -> None:
    """A socket at which nobody listens is what a killed process leaves."""
    path = folder / "a.sock"
    with serve(manager, path), pytest.raises(WatchError, match="a server listens there"):
        serve(manager, path)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(WatchError, match="nobody listens; its process has ended"):
        Client(path)
    with serve(manager, path), Client(path) as client:
        assert client.ask(Ask()).session_count == 4


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (b"", "the server has ended"),
        (b"hello\n", "no JSON"),
        (b'{"statekit": 9, "picture": {}}\n', "version 9"),
        (b'{"statekit": 1, "picture": null}\n', r"\$: a NoneType, not an object"),
        (b'{"statekit": 1, "picture": {"pid": "one"}}\n', r"\$\.pid: a str, not int"),
        (b'{"statekit": 1, "picture": {"pid": 1}}\n', r"\$\.name: missing"),
        (b'{"statekit": 1, "error": "no"}\n', "the server says: no"),
        (b"x" * (wire.MAX_ANSWER + 300_000), "an answer of more than"),
    ],
)
def test_server_when_it_says_garbage_then_the_client_says_what(
    folder: Path, said: bytes, found: str
) -> None:
    """Whatever is at the other end, a client ends with words, not with a traceback."""
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                with contextlib.suppress(OSError):
                    connection.sendall(said)

        speaking = threading.Thread(target=speak)
        speaking.start()
        with Client(path) as client, pytest.raises(WatchError, match=found):
            client.ask(Ask())
        speaking.join()


def test_server_when_it_is_silent_then_the_client_gives_up(folder: Path) -> None:
    """A process that hangs is no reason to hang."""
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with Client(path, 0.1) as client, pytest.raises(WatchError, match="does not answer"):
            client.ask(Ask())


def test_picture_when_it_goes_over_the_wire_then_it_comes_back_the_same(watched: Server) -> None:
    """What is read is what was written."""
    with Client(watched.path) as client:
        picture = client.ask(Ask(values_of="robot-1"))
    assert wire.read_answer(wire.answer_line(picture)) == picture
    data = json.loads(wire.answer_line(picture))
    data["picture"]["sessions"][0]["nbytes"] = {"cpu": "x"}
    with pytest.raises(ValueError, match=r"\$\.sessions\[0\]\.nbytes\.cpu: a str, not int"):
        wire.read_answer(json.dumps(data).encode())
