"""Where a project's schemas are and where its adapters go."""

from __future__ import annotations

from pathlib import Path

import pytest

from statekit.errors import GenerateError
from statekit_codegen.project import Project


def test_find_when_in_a_subfolder_then_is_the_nearest_project(toy: Path) -> None:
    """A pyproject.toml without our table is passed by on the way up."""
    inner = toy / "src" / "inner"
    inner.mkdir(parents=True)
    (toy / "src" / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    project = Project.find(inner)
    assert (project.root, project.schemas) == (toy, toy / "schemas")
    assert project.output == toy / "src" / "toy" / "generated"


@pytest.mark.parametrize("table", ["tool = 3", "tool = []", "", "[[tool]]\nx = 1"])
def test_find_when_a_file_has_no_tools_at_all_then_it_is_passed_by(toy: Path, table: str) -> None:
    """Whatever else `tool` is in a file, it is no table of ours, and no reason to fail."""
    (toy / "src").mkdir()
    (toy / "src" / "pyproject.toml").write_text(table, encoding="utf-8")
    assert Project.find(toy / "src").root == toy


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ("tool.statekit = 3", "not a table"),
        ('[tool.statekit]\nschemas = "s"', "output: missing"),
        ('[tool.statekit]\nschemas = ""\noutput = "o"', "schemas: '' is no folder name"),
        ('[tool.statekit]\nschemas = 3\noutput = "o"', "schemas: 3 is no folder name"),
        ('[tool.statekit]\nschema = "s"', "unknown key 'schema'"),
        ('[tool.statekit]\nschemas = "s"\noutput = "../o"', "output: '../o' leaves the project"),
        ('[tool.statekit]\nschemas = "/s"\noutput = "o"', "schemas: '/s' leaves the project"),
        ("[tool.statekit", "unreadable: "),
    ],
)
def test_find_when_the_table_is_wrong_then_says_what_is(
    tmp_path: Path, table: str, found: str
) -> None:
    """Each mistake in the table is named, with the file it is in."""
    (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
    with pytest.raises(GenerateError) as raised:
        Project.find(tmp_path)
    assert found in str(raised.value)
    assert str(tmp_path / "pyproject.toml") in str(raised.value)


def test_schema_files_when_an_editor_left_files_then_only_schemas_are_found(toy: Path) -> None:
    """Hidden files and files of another kind are no schemas; the rest is sorted by name."""
    for name in (".#toy.yaml", "notes.txt", "b.yml", "a.yaml"):
        (toy / "schemas" / name).write_text("", encoding="utf-8")
    found = Project.find(toy).schema_files()
    assert [path.name for path in found] == ["a.yaml", "b.yml", "toy.yaml"]


def test_schema_files_when_there_is_none_then_says_where_to_put_one(toy: Path) -> None:
    """An empty folder and a missing one are errors that name the folder."""
    project = Project.find(toy)
    (toy / "schemas" / "toy.yaml").unlink()
    with pytest.raises(GenerateError, match=r"^schemas: no schema in it; write one"):
        project.schema_files()
    (toy / "schemas").rmdir()
    with pytest.raises(GenerateError, match=r"^schemas: no such folder"):
        project.schema_files()


def test_display_when_a_schema_is_a_link_then_shows_its_name_in_the_project(toy: Path) -> None:
    """Where a link leads is a fact of one machine and gets into no message and no header."""
    elsewhere = toy.parent / "elsewhere.yaml"
    elsewhere.write_text("", encoding="utf-8")
    link = toy / "schemas" / "link.yaml"
    link.symlink_to(elsewhere)
    project = Project.find(toy)
    assert project.display(link) == "schemas/link.yaml"
    assert project.is_schema(link)
    assert project.display(Path("schemas/toy.yaml")) == "schemas/toy.yaml"
    assert project.display(elsewhere) == elsewhere.as_posix()
