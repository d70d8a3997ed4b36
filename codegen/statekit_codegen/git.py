"""Git: files of a revision, read from git's objects; nothing is checked out, nothing written.

Owns the calls of `git`. Knows nothing of schemas.

    G1  No name that comes from outside is taken for an option, and no file outside of the
        repository is read.
    G2  The variables by which a hook points git at its own repository are left out, so the
        repository is that of the folder.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import attrs

from statekit.errors import GenerateError

__all__ = ["Revision"]

_TIMEOUT_S = 60
_OF_A_HOOK = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE",
    "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_WORK_TREE",
)  # fmt: skip


@attrs.frozen
class Revision:
    """One commit of the repository that a folder lies in.

    Attributes:
        folder: the folder; paths are relative to it, with /.
        name: what the revision was called.
        commit: its id.
        prefix: the folder's own path in the repository, empty or ending with /.
    """

    folder: Path
    name: str
    commit: str
    prefix: str

    @classmethod
    def find(cls, folder: Path, name: str) -> Revision:
        """The commit that `name` names in the repository of `folder`.

        Raises:
            GenerateError: there is no git, no repository, or no such commit.
        """
        done = _git(folder, "rev-parse", "--show-prefix")
        if done.returncode:
            said = _said(done)
            if "not a git repository" in said:
                todo = "run it in a clone, or compare with a folder: --against DIR"
                raise GenerateError(str(folder), "not a git repository", todo)
            raise GenerateError(str(folder), said, "do what git says, or compare with a folder")
        prefix = os.fsdecode(done.stdout).removesuffix("\n")
        asked = f"{name}^{{commit}}"
        done = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", asked)
        commit = done.stdout.decode("ascii", "replace").strip()
        if done.returncode or not commit.isalnum():
            todo = (
                "name a branch, a tag, a commit or a folder that is there; if it is on a remote, "
                "fetch it first (checkouts in CI are shallow)"
            )
            raise GenerateError(f"--against {name}", "no such revision, and no such folder", todo)
        return cls(folder, name, commit, prefix)

    def files(self, path: str) -> tuple[str, ...]:
        """The names of the files and links right in the folder at `path`; none if it is none."""
        done = _git(self.folder, "ls-tree", "-z", self.commit, "--", f"./{path}/")
        if done.returncode:
            raise GenerateError(f"{self.name}:{path}", _said(done), "do what git says")
        found = []
        for entry in done.stdout.split(b"\0"):
            facts, _, name = entry.partition(b"\t")
            if b" blob " in facts:
                found.append(os.fsdecode(name).rsplit("/", 1)[-1])
        return tuple(sorted(found))

    def read(self, path: str) -> bytes | None:
        """The bytes of the file at `path`, through links within the repository; None if none."""
        if "\n" in path:
            return None
        asked = os.fsencode(f"{self.commit}:{self.prefix}{path}\n")
        done = _git(self.folder, "cat-file", "--batch", "--follow-symlinks", given=asked)
        header, _, rest = done.stdout.partition(b"\n")
        kind, _, size = header.partition(b" blob ")
        if done.returncode:
            raise GenerateError(f"{self.name}:{path}", _said(done), "do what git says")
        if not kind.isalnum() or not size.isdigit():
            return None  # missing, a folder, a link that leads nowhere or out of the repository
        return rest[: int(size)]


def _git(
    folder: Path, *arguments: str, given: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    environment = {name: text for name, text in os.environ.items() if name not in _OF_A_HOOK}
    command: Sequence[str] = ("git", "-C", str(folder), *arguments)
    try:
        return subprocess.run(
            command,
            input=given or b"",
            capture_output=True,
            env={**environment, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        todo = "install it, or compare with a folder: --against DIR"
        raise GenerateError("git", "not installed", todo) from None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        todo = "try again, or compare with a folder: --against DIR"
        raise GenerateError("git", f"could not run: {error}", todo) from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return said.removeprefix("fatal: ")[:400] or f"git ended with {done.returncode}"
