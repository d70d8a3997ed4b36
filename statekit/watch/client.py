"""Client: pictures of a manager or a service in another process. Loads without torch."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from statekit.errors import WatchError
from statekit.watch import private, wire
from statekit.watch.picture import Picture
from statekit.watch.service_picture import ServicePicture

__all__ = ["Client", "find"]


def find(target: str | None) -> Path:
    """The socket that is meant: by path, by the number of its process, or the only one there is.

    Raises:
        WatchError: there is none, or there are several; names them.
    """
    if target is not None and not target.isdecimal():
        return Path(target).absolute()
    folder = private.default_folder()
    found = private.listening(folder)
    if target is not None:
        stems = (target, f"{target}-")
        found = [path for path in found if path.stem == stems[0] or path.stem.startswith(stems[1])]
        what = f"process {target} shows no manager or service"
    else:
        found = [path for path in found if _answers(path)]
        what = "no process shows a manager or a service"
    if not found:
        todo = "call serve(manager) or serve_service(sessions) in it, as the same user"
        raise WatchError(str(folder), what, todo)
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise WatchError(str(folder), f"several are shown: {names}", "name one by its path")
    return found[0]


class Client:
    """A connection to a server; ends with `close`, or a `with` block.

    Thread rule: one thread at a time.

    Raises:
        WatchError: nobody listens at `path`, or it is not this user's.
    """

    def __init__(self, path: str | os.PathLike[str], timeout_s: float = 30.0) -> None:
        self.path = Path(path).absolute()
        self._socket = private.connect(self.path, timeout_s)
        self._inbox = bytearray()

    def ask(self, ask: wire.Ask) -> Picture:
        """What the server of a manager shows now.

        Raises:
            WatchError: the server is gone, slow, answers what is no picture, or shows a service.
        """
        shown = self.ask_any(ask)
        if isinstance(shown, ServicePicture):
            todo = "use `statekit top`, or `ask_any`"
            raise WatchError(str(self.path), "it shows a service", todo)
        return shown

    def ask_any(self, ask: wire.Ask) -> Picture | ServicePicture:
        """What the server shows now, of a manager or of a service.

        Raises:
            WatchError: the server is gone, slow, or answers what is no picture.
        """
        try:
            self._socket.sendall(wire.ask_line(ask))
            line = self._line()
        except TimeoutError:
            todo = "see whether its process still runs"
            raise WatchError(str(self.path), "the server does not answer", todo) from None
        except OSError:
            raise self._gone() from None
        try:
            return wire.read_answer(line)
        except ValueError as error:
            todo = "use the statekit of the server's process"
            raise WatchError(str(self.path), str(error), todo) from None

    def close(self) -> None:
        """End the connection; safe to repeat."""
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _line(self) -> bytes:
        while b"\n" not in self._inbox:
            if len(self._inbox) > wire.MAX_ANSWER:
                raise WatchError(
                    str(self.path),
                    f"an answer of more than {wire.MAX_ANSWER} bytes",
                    "name the socket of a server of statekit",
                )
            data = self._socket.recv(256 * 1024)
            if not data:
                raise self._gone()
            self._inbox += data
        line, _, self._inbox = self._inbox.partition(b"\n")
        return bytes(line)

    def _gone(self) -> WatchError:
        todo = "start it again, or watch another one"
        return WatchError(str(self.path), "the server has ended", todo)


def _answers(path: Path) -> bool:
    """Whether somebody listens there: of a process that was killed, the file is left."""
    try:
        private.connect(path, 1.0).close()
    except WatchError:
        return False
    return True
