"""Loading files: what is no file, what cannot be read, and several schemas together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from statekit.errors import SchemaError
from statekit_codegen.load import load_model, load_models
from statekit_codegen.project import Project
from tests.codegen.rule_cases import BASE


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one good schema."""
    (tmp_path / "pyproject.toml").write_text('[tool.statekit]\nschemas = "s"\noutput = "o"\n')
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "toy.yaml").write_text(BASE)
    return Project.find(tmp_path)


def found(path: Path, file: str = "x.yaml") -> str:
    """What is said of a path."""
    with pytest.raises(SchemaError) as caught:
        load_model(path, file)
    return str(caught.value)


def test_load_model_when_the_path_is_no_file_then_the_problem_says_so(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe and an impossible name are problems like any other."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")

    def reason(path: Path) -> str:
        said = found(path).removeprefix("x.yaml:1:1: FILE_READABLE at $: ")
        return said.removesuffix("; name a schema file that can be read")

    assert reason(tmp_path / "no.yaml") == "No such file or directory"
    assert reason(tmp_path) == "a folder"
    assert reason(tmp_path / "pipe") == "neither a file nor a folder"
    assert reason(tmp_path / ("x" * 300)) == "File name too long"
    assert reason(tmp_path / "a\0b") == "no file name"
    assert reason(tmp_path / "loop") == "Too many levels of symbolic links"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_load_model_when_the_file_cannot_be_read_then_the_problem_says_why(tmp_path: Path) -> None:
    """A file without rights is a problem that names them."""
    path = tmp_path / "toy.yaml"
    path.write_text(BASE)
    path.chmod(0)
    assert "Permission denied" in found(path)


@pytest.mark.parametrize("name", ["a\nb.yaml", "\u202ea.yaml", "a\x1b.yaml"])
def test_load_model_when_the_name_is_hostile_then_it_is_refused_and_shown_escaped(
    tmp_path: Path, name: str
) -> None:
    """A name that a header or a message could not show stops a file before it is read."""
    (tmp_path / name).write_text(BASE)
    said = found(tmp_path / name, name)
    assert "FILE_READABLE" in said
    assert said.isprintable()


def test_load_models_when_several_are_wrong_then_the_problems_of_all_are_raised(
    project: Project,
) -> None:
    """One run names what is wrong in every file, sorted by file and place."""
    (project.schemas / "a.yaml").write_text(BASE.replace("uint8", "x").replace("A toy.", "1"))
    (project.schemas / "b.yml").write_text("- 1\n")
    (project.schemas / "z.txt").write_text("no schema")
    with pytest.raises(SchemaError) as caught:
        load_models(project)
    assert [(one.file, one.line, one.rule) for one in caught.value.problems] == [
        ("s/a.yaml", 4, "WRONG_TYPE"),
        ("s/a.yaml", 22, "DTYPE_KNOWN"),
        ("s/b.yml", 1, "WRONG_TYPE"),
    ]


def test_load_models_when_two_schemas_share_a_model_then_the_second_is_refused(
    project: Project,
) -> None:
    """Two schemas of one name would be written into one module."""
    (project.schemas / "two.yaml").write_text(BASE)
    with pytest.raises(SchemaError) as caught:
        load_models(project)
    assert str(caught.value) == (
        "s/two.yaml:2:1: MODEL_TWICE at $.model: the model toy again, first in s/toy.yaml; "
        "give one of them another name"
    )


def test_load_models_when_a_file_is_chosen_twice_then_it_is_one_model(project: Project) -> None:
    """The same file, by whatever path, is not two models."""
    path = project.schemas / "toy.yaml"
    models = load_models(project, [path, project.schemas / ".." / "s" / "toy.yaml"])
    assert [model.file for model in models] == ["s/toy.yaml"]
