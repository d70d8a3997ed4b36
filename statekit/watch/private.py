"""The socket that only this user can open: its folder, its file, and who is at the other end.

Owns the checks, on both sides. Loads without torch.

    W1  A socket is made, and opened, in a folder alone that this user owns and nobody else can
        write; the default folder is made with mode 0700, the socket with 0600 before it listens.
    W2  Whoever is at the other end is this user, where the platform tells.
    W3  A file that is there is removed only if it is a socket of this user at which nobody listens.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import tempfile
from pathlib import Path

from statekit.errors import WatchError

__all__ = ["connect", "default_folder", "listen", "listening", "require_same_user"]

_MAX_PATH = 103
"""Bytes of a path that a socket address holds everywhere (108 on Linux, 104 on macOS)."""


def default_folder() -> Path:
    """Where sockets are unless a path is given; it need not exist.

    Raises:
        WatchError: the platform has no such sockets.
    """
    _require_unix()
    root = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(root):
        return Path(root) / "statekit"
    return Path(tempfile.gettempdir()) / f"statekit-{os.getuid()}"


def listen(path: Path | None) -> tuple[socket.socket, Path]:
    """A socket that listens, at `path` or under this process's number in the default folder.

    Raises:
        WatchError: the platform has no such sockets, the folder is not private, or the place is
            taken.
    """
    _require_unix()
    if path is not None:
        _require_private(path.parent)
        return _bind(path), path
    folder = default_folder()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        found = f"it cannot be made ({error.strerror})"
        raise WatchError(str(folder), found, "pass a path in another folder") from None
    _require_private(folder)
    pid = os.getpid()
    for number in range(1, 1000):
        name = f"{pid}.sock" if number == 1 else f"{pid}-{number}.sock"
        with contextlib.suppress(_TakenError):
            return _bind(folder / name), folder / name
    raise WatchError(str(folder), f"{pid} has 999 sockets there", "close some")


def connect(path: Path, timeout_s: float) -> socket.socket:
    """A connection to the server at `path`.

    Raises:
        WatchError: nobody listens there, or it is not this user's.
    """
    _require_unix()
    found = _lstat(path)
    if found is None:
        raise WatchError(str(path), "there is no socket", "see `statekit top` without arguments")
    _require_private(path.parent)
    if not stat.S_ISSOCK(found.st_mode):
        raise WatchError(str(path), "it is no socket", "name the socket of a server")
    if found.st_uid != os.geteuid():
        todo = "run this as the user of the server"
        raise WatchError(str(path), f"user {found.st_uid} owns it", todo)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        connection.connect(_address(path))
        require_same_user(connection, str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        connection.close()
        todo = "remove the file, or let the next server there do so"
        raise WatchError(str(path), "nobody listens; its process has ended", todo) from None
    except OSError as error:
        connection.close()
        todo = "see whether its process still runs"
        raise WatchError(str(path), error.strerror or str(error), todo) from None
    except BaseException:
        connection.close()
        raise
    return connection


def listening(folder: Path) -> list[Path]:
    """The sockets of a folder, the oldest first; [] where there is no folder.

    Raises:
        WatchError: the folder is not private.
    """
    if not folder.exists():
        return []
    _require_private(folder)
    found = [(one.st_mtime, path) for path in folder.glob("*.sock") if (one := _lstat(path))]
    return [path for _, path in sorted(found, key=lambda one: (one[0], len(one[1].name), one[1]))]


def require_same_user(connection: socket.socket, place: str) -> None:
    """Refuse a peer who is somebody else, where the platform tells. Raises: WatchError."""
    if not hasattr(socket, "SO_PEERCRED"):
        return
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", data)
    if uid != os.geteuid():
        raise WatchError(place, f"user {uid} is at the other end", "nothing is shown to others")


def _require_unix() -> None:
    if not hasattr(socket, "AF_UNIX"):
        raise WatchError("watch", "this platform has no Unix sockets", "use metrics instead")


class _TakenError(WatchError):
    """Somebody listens there."""


def _bind(path: Path) -> socket.socket:
    address = _address(path)
    found = _lstat(path)
    if found is not None:
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
            raise WatchError(str(path), "something else is there", "pass another path")
        if _is_heard(address):
            raise _TakenError(str(path), "a server listens there", "pass another path")
        path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(address)
        path.chmod(0o600)  # nobody can connect before `listen`
        listener.listen(16)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise _TakenError(str(path), "a server listens there", "pass another path") from None
        raise WatchError(str(path), error.strerror or str(error), "pass another path") from None
    return listener


def _is_heard(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # its queue is full, say
    return True


def _require_private(folder: Path) -> None:
    found = _lstat(folder)
    todo = f"make one with mode 0700 that user {os.geteuid()} owns, or pass a path in such a one"
    if found is None or not stat.S_ISDIR(found.st_mode):
        raise WatchError(str(folder), "it is no folder", todo)
    if found.st_uid != os.geteuid():
        raise WatchError(str(folder), f"user {found.st_uid} owns it", todo)
    if found.st_mode & 0o022:
        mode = stat.S_IMODE(found.st_mode)
        raise WatchError(str(folder), f"others can write there (mode {mode:04o})", todo)


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _address(path: Path) -> str:
    if len(os.fsencode(path)) > _MAX_PATH:
        found = f"the path is longer than {_MAX_PATH} bytes"
        raise WatchError(str(path), found, "pass a shorter one")
    return str(path)
