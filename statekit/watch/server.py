"""Server: pictures for clients on a Unix socket, from one thread.

Owns the thread and its clients. Not here: what is shown, of a manager (`taking`) or of a service
(`service`), the messages (`wire`), who may connect (`private`).

    K1  What is watched never waits: pictures are taken by the server's thread, which waits for no
        client.
    K2  A client has one request under way; one that sends too much, nonsense, or does not read its
        answer costs a bounded amount of memory, and nobody else anything.
    K3  The thread, the socket and its file go with `close`, with what is watched, or with the
        process; of one that was killed the file stays, until the next server there removes it.

Thread-safe. The server keeps nothing alive that it shows. Loads without torch.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import attrs

from statekit.errors import WatchError
from statekit.watch import private, wire
from statekit.watch.sources import Source

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager

__all__ = ["Server", "open_server", "serve"]

_CLIENTS = 16
_FRESH_S = 0.1
"""How long an answer is good for others who ask the same: many clients cost as much as one."""
_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE


def serve(
    manager: SessionStateManager, path: str | os.PathLike[str] | None = None, name: str = "default"
) -> Server:
    """Let this user watch `manager` with `statekit top`, from now on.

    Args:
        path: of the socket, in a folder that this user alone can write; None puts it under the
            process's number into `$XDG_RUNTIME_DIR/statekit`, or a private folder for temporary
            files.
        name: what the view calls the manager.

    Raises:
        WatchError: there is no such socket here, its folder is not private, or its place is taken.
    """
    from statekit.watch.taking import ManagerSource  # needs torch, which services do not

    return open_server(manager, lambda: ManagerSource(manager, name), path)


def open_server(
    watched: object, source_of: Callable[[], Source], path: str | os.PathLike[str] | None
) -> Server:
    """A server that ends with `watched`; the source is made once there is a socket.

    Raises:
        WatchError: as `serve`.
    """
    listener, place = private.listen(None if path is None else Path(path).absolute())
    try:
        return Server(watched, source_of(), listener, place)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            place.unlink()
        raise


@attrs.define(eq=False)
class _Client:
    """One connection: what came and is no whole line yet, and what has to go out still."""

    socket: socket.socket
    inbox: bytearray = attrs.field(factory=bytearray)
    outbox: bytes | memoryview = b""


class Server:
    """What answers clients; made by `serve` and `serve_service`.

    Ends with `close`, or a `with` block.
    """

    def __init__(
        self, watched: object, source: Source, listener: socket.socket, path: Path
    ) -> None:
        self.path = path
        self._source = source
        self._listener = listener
        self._clients: dict[socket.socket, _Client] = {}
        self._answers: dict[wire.Ask, tuple[float, bytes]] = {}
        self._awake, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="statekit-watch", daemon=True)
        self._gone = weakref.finalize(watched, _stop, self._wake, path, os.getpid())
        self._thread.start()
        _servers.add(self)

    def close(self) -> None:
        """Answer nobody any more; safe to repeat, and from any thread."""
        self._source.close()
        self._gone()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        with contextlib.ExitStack() as every, selectors.DefaultSelector() as selector:
            every.callback(self._close_all)
            selector.register(self._awake, _READ)
            selector.register(self._listener, _READ)
            while self._gone.alive:
                for key, mask in selector.select():
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    elif isinstance(key.data, _Client):
                        self._attend(selector, key.data, mask)

    def _close_all(self) -> None:
        for one in (*self._clients, self._listener, self._awake, self._wake):
            one.close()
        self._clients.clear()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # out of file descriptors, say: not worth a busy loop
            time.sleep(_FRESH_S)
            return
        connection.setblocking(False)
        try:
            private.require_same_user(connection, str(self.path))
        except (WatchError, OSError):
            connection.close()
            return
        client = self._clients[connection] = _Client(connection)
        selector.register(connection, _READ, client)
        if len(self._clients) > _CLIENTS:
            with contextlib.suppress(OSError):
                connection.send(wire.error_line(f"{_CLIENTS} clients watch already"))
            self._drop(selector, client)

    def _drop(self, selector: selectors.BaseSelector, client: _Client) -> None:
        selector.unregister(client.socket)
        del self._clients[client.socket]
        client.socket.close()

    def _attend(self, selector: selectors.BaseSelector, client: _Client, mask: int) -> None:
        """Take what came, or send what the client can take; drop one that is gone or rude."""
        try:
            if mask & _WRITE:
                client.outbox = client.outbox[client.socket.send(client.outbox) :]
            elif data := client.socket.recv(wire.MAX_REQUEST):
                client.inbox += data
            else:
                self._drop(selector, client)
                return
        except BlockingIOError:
            return
        except OSError:
            self._drop(selector, client)
            return
        if not client.outbox:
            line, newline, rest = client.inbox.partition(b"\n")
            if newline:
                client.inbox = rest
                client.outbox = memoryview(self._answer(bytes(line)))
            elif len(client.inbox) > wire.MAX_REQUEST:
                self._drop(selector, client)
                return
        selector.modify(client.socket, _WRITE if client.outbox else _READ, client)

    def _answer(self, line: bytes) -> bytes:
        try:
            ask = wire.read_ask(line)
        except ValueError as error:
            return wire.error_line(str(error))
        now = time.monotonic()
        at, answer = self._answers.get(ask, (-_FRESH_S, b""))
        if now - at >= _FRESH_S:
            answer = self._picture(ask)
            self._answers = {
                one: known for one, known in self._answers.items() if now - known[0] < _FRESH_S
            }
            self._answers[ask] = (time.monotonic(), answer)
        return answer

    def _picture(self, ask: wire.Ask) -> bytes:
        try:
            answer = self._source.answer(ask)
        except Exception as error:  # of a value's own code: told to who looks, not to the server
            return wire.error_line(f"no picture could be taken: {error!r}")
        if len(answer) > wire.MAX_ANSWER:
            return wire.error_line("the picture is too large; ask for fewer sessions")
        return answer


_servers: weakref.WeakSet[Server] = weakref.WeakSet()


def _forget_in_child() -> None:
    """A child of a fork has the sockets but not the thread: nobody shall wait for it there."""
    for server in tuple(_servers):
        server._gone.detach()
        server._close_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def _stop(wake: socket.socket, path: Path, pid: int) -> None:
    """Wake the thread to its end, and remove the socket's file; may run anywhere, so waits not."""
    if os.getpid() != pid:  # a child of a fork, which has the file's name but not the thread
        return
    with contextlib.suppress(OSError):
        path.unlink()
    with contextlib.suppress(OSError):
        wake.send(b"\0")
