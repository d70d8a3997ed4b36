"""The wheel, as a stranger installs it: no checkout of ours, no torch where only schemas are read.

The dependencies of the `codegen` extra are copied from this environment, which is the locked one,
so the test needs no network; which they are is read from the wheel itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from statekit._version import __version__

pytestmark = [pytest.mark.packaging, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SCHEMA = """\
statekit: 1
model: nimbus
class: NimbusState
doc: A model that nobody has heard of.
parameters:
  kept: {type: int, default: 2, minimum: 1, doc: Frames that are kept.}
values:
  frames:
    bucket: StateObject
    doc: The newest frames.
    object: LatentBuffer
    item: torch.Tensor
    dtype: float32
    shape: [3, 4]
    device: model
    ring: {bound: kept}
    decision: {operations: [accumulate], why: Only the newest are read.}
  steps:
    bucket: attrs
    doc: Steps so far.
    type: int
    default: 0
    coerce: int
    device: none
    decision: {operations: [], why: A counter that the model alone reads and writes.}
resets:
  session: {clears: all, doc: A new session.}
"""
USE = """
import torch
from cloud.generated.nimbus import NimbusState
from statekit import SessionStateManager
manager = SessionStateManager()
state = NimbusState("a", manager, kept=1)
state.frames_object.extend([torch.zeros(3, 4), torch.ones(3, 4)])
state.steps += 1
again = NimbusState("a", manager, kept=1)
assert again.steps == 1 and len(again.frames) == 1 and again.frames[0].sum() == 12
assert manager.nbytes_by_device() == {"cpu": 48}
again.reset_session()
assert state.steps == 0 and state.frames == []
print("used")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the working tree."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the scripts of an environment with the wheel and its `codegen` extra."""
    scripts = _environment(wheel, tmp_path_factory.mktemp("with_extra"))
    packages = _packages(scripts)
    for name in _closure(wheel, extra="codegen"):
        _copy(name, packages)
    return scripts


def test_wheel_when_built_then_holds_the_two_packages_and_their_data(wheel: Path) -> None:
    """Code, templates, `py.typed` and the licence are in the wheel; tests and schemas are not."""
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"statekit-{__version__}.dist-info/"
    assert {name.split("/")[0] for name in names} == {"statekit", "statekit_codegen", info[:-1]}
    expected = {
        path.relative_to(root).as_posix()
        for root, package in ((ROOT, "statekit"), (ROOT / "codegen", "statekit_codegen"))
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if not name.startswith(info)} == expected
    assert {"statekit/py.typed", "statekit_codegen/py.typed"} <= names
    assert {"statekit_codegen/templates/module.py.jinja", f"{info}licenses/LICENSE"} <= names


def test_wheel_when_read_then_torch_is_needed_by_the_runtime_and_not_by_the_extra(
    wheel: Path,
) -> None:
    """The extra adds exactly what the generator imports."""
    assert {"attrs", "numpy", "torch"} == set(_requirements(wheel, extra=""))
    assert {"cattrs", "click", "jinja2", "pyyaml", "rich"} <= set(
        _requirements(wheel, extra="codegen")
    )


def test_wheel_when_installed_alone_then_the_command_names_the_extra(
    wheel: Path, tmp_path: Path
) -> None:
    """The console script of a bare install says what is missing and exits with 2."""
    scripts = _environment(wheel, tmp_path / "bare")
    _copy("attrs", _packages(scripts))
    done = _start(scripts / "statekit", "generate", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not installed; the command line needs the extra 'codegen'" in done.stderr


def test_wheel_when_a_stranger_generates_then_the_adapter_works(
    installed: Path, tmp_path: Path
) -> None:
    """Schema, `generate`, `--check`, `vet` and use of the result, in a project of their own."""
    project = tmp_path / "cloud-project"
    (project / "state").mkdir(parents=True)
    (project / "state" / "nimbus.yaml").write_text(SCHEMA, encoding="utf-8")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "cloud"\n\n[tool.statekit]\nschemas = "state"\n'
        'output = "cloud/generated"\n',
        encoding="utf-8",
    )
    assert _run(installed / "statekit", "generate", cwd=project).splitlines() == [
        "wrote      cloud/generated/__init__.py",
        "wrote      cloud/generated/nimbus.py",
    ]
    assert _run(installed / "statekit", "generate", "--check", cwd=project) == (
        "all 2 files are up to date\n"
    )
    _run(installed / "statekit", "vet", cwd=project)
    _run(installed / "statekit", "review", cwd=project)
    # torch is not copied: this environment's Python runs what was generated.
    packages = os.pathsep.join([str(project), str(_packages(installed))])
    assert _run(sys.executable, "-c", USE, cwd=project, PYTHONPATH=packages) == "used\n"


def _environment(wheel: Path, folder: Path) -> Path:
    venv.create(folder, with_pip=False)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        scripts / "python",
    ]
    _run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    return scripts


def _packages(scripts: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(_run(scripts / "python", "-c", code).strip())


def _requirements(wheel: Path, extra: str) -> Iterator[str]:
    """Names of what the wheel needs for `extra`; for none, of what it always needs."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    for text in metadata.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        if _applies(requirement, extra) and (not extra or not _applies(requirement, "")):
            yield canonicalize_name(requirement.name)


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _closure(wheel: Path, extra: str) -> set[str]:
    """What the extra needs, and what that needs; with attrs, and without torch and numpy."""
    todo, found = ["attrs", *_requirements(wheel, extra)], set[str]()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            needed = map(Requirement, distribution(name).requires or [])
            todo += [canonicalize_name(other.name) for other in needed if _applies(other, "")]
    return found


def _copy(name: str, packages: Path) -> None:
    """Put the files of an installed distribution into another environment."""
    for file in distribution(name).files or []:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), target)


def _start(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def _run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    done = _start(*command, cwd=cwd, **environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
