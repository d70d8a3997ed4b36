"""The public names of the package: importable, sorted, and loaded on first use."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import statekit

PLACES = statekit._PLACES


@pytest.mark.parametrize("name", statekit.__all__)
def test_public_name_when_imported_then_there_and_from_its_module(name: str) -> None:
    """Every name in __all__ exists and is the very object of the module that owns it."""
    value = getattr(statekit, name)
    if name in PLACES:
        module = importlib.import_module(f"statekit.{PLACES[name]}")
        assert value is getattr(module, name)
        assert name in module.__all__


def test_public_names_when_listed_then_sorted_and_what_dir_shows() -> None:
    """__all__ is sorted, without doubles, and dir() offers it."""
    assert statekit.__all__ == sorted(set(statekit.__all__))
    assert dir(statekit) == statekit.__all__


def test_public_names_when_type_checked_then_the_same_ones() -> None:
    """What type checkers see is what the lazy import serves, from the same modules."""
    tree = ast.parse(Path(statekit.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: str(node.module).removeprefix("statekit.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == PLACES


def test_star_import_when_used_then_gives_all() -> None:
    """`from statekit import *` gives exactly the public names."""
    scope: dict[str, object] = {}
    exec("from statekit import *", scope)
    assert set(scope) - {"__builtins__"} == set(statekit.__all__)


def test_unknown_name_when_asked_for_then_attribute_error() -> None:
    """A name that is not there fails as in any module."""
    with pytest.raises(AttributeError, match="module 'statekit' has no attribute 'Latent'"):
        _ = statekit.Latent
    with pytest.raises(ImportError):
        from statekit import Latent  # noqa: F401


@pytest.mark.slow
def test_package_when_imported_then_loads_torch_only_for_names_that_need_it() -> None:
    """Tools that read specs, and settings that say "off", do not pay for torch."""
    code = (
        "import sys, statekit; statekit.ModelSpec; statekit.SessionStateSettings;"
        "assert 'torch' not in sys.modules; statekit.LatentBuffer; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "path",
    sorted(Path(statekit.__file__).parent.rglob("*.py")),
    ids=lambda path: path.relative_to(Path(statekit.__file__).parent).as_posix(),
)
def test_module_when_it_lists_public_names_then_each_is_there_once(path: Path) -> None:
    """Each module's __all__ names what is there (the linter sees to its order)."""
    parts = path.relative_to(Path(statekit.__file__).parent.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(module, name)
