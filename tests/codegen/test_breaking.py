"""`statekit breaking`: what it finds, what it says, and where the other side comes from."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from statekit_codegen.breaking import Comparison, compare
from statekit_codegen.breaking_rules import BREAKING_RULES
from statekit_codegen.cli import main
from statekit_codegen.commands.breaking import FIELDS
from statekit_codegen.load import load_text
from tests.codegen.breaking_cases import BASE, CASES, Case

TABLE = '[tool.statekit]\nschemas = "schemas"\noutput = "generated"\n'


def compared(before: str, after: str) -> Comparison:
    """What changed between two schemas of one model."""
    old, new = load_text(before.encode(), "before.yaml"), load_text(after.encode(), "toy.yaml")
    (found,) = compare({"schemas/toy.yaml": old}, [new], all_schemas=True)
    return found


def told(found: Comparison) -> list[str]:
    """Rule and subject of each change, and `!` where it breaks something."""
    changes = (located.change for located in found.changes)
    return [" ".join(filter(None, (one.rule, one.subject, "!" * one.breaks))) for one in changes]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_change_when_compared_then_exactly_what_follows_is_told(case: Case) -> None:
    """An edit of a schema is told as what it means to callers and to saved sessions, no more."""
    assert told(compared(BASE, case.after)) == list(case.found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_change_when_told_then_it_says_what_was_what_is_why_and_where(case: Case) -> None:
    """The two sides differ, there is a reason, and the place is in today's schema."""
    found = compared(BASE, case.after)
    lines = case.after.splitlines()
    for located in found.changes:
        change = located.change
        assert change.was != change.now
        assert change.why
        assert located.column - 1 < len(lines[located.line - 1])


def test_rules_when_compared_with_the_cases_then_each_one_is_tried() -> None:
    """Every rule has a pair of schemas; two are of models, and have a test of their own."""
    tried = {line.split()[0] for case in CASES for line in case.found}
    assert {rule.id for rule in BREAKING_RULES} - tried == {"SOURCE_MODEL_GONE", "SNAPSHOT_MODEL"}


def test_change_when_nothing_changed_but_form_and_words_then_nothing_is_told() -> None:
    """Comments, order and descriptions are no changes."""
    assert told(compared(BASE, "# A comment.\n" + BASE.replace("doc: Frames.", "doc: More."))) == []


def test_change_when_a_value_with_a_default_becomes_an_object_then_that_is_told() -> None:
    """An object reads as None at first, so a default other than null is lost."""
    count = "  count: {bucket: attrs, type: int, default: 0, coerce: int, device: none}"
    attrs = "  count: {bucket: attrs, type: int | None, default: 5, device: none}"
    held = "  count: {bucket: StateObject, object: HeldValue, type: int, device: none}"
    found = told(compared(BASE.replace(count, attrs), BASE.replace(count, held)))
    assert found == [
        "SOURCE_OBJECT count",
        "SOURCE_DEFAULT count !",
        "SOURCE_MEMBER_NEW count_object",
        "SNAPSHOT_DEFAULT count !",
        "SNAPSHOT_BUCKET count !",
    ]


def test_compare_when_models_come_and_go_then_both_are_told() -> None:
    """A model that is gone breaks callers and saved sessions; one that is new breaks nothing."""
    old = load_text(BASE.encode(), "main:schemas/toy.yaml")
    new = load_text(BASE.replace("model: toy", "model: other").encode(), "schemas/other.yaml")
    found = compare({"schemas/toy.yaml": old}, [new], all_schemas=True)
    assert [(one.model, one.file, told(one)) for one in found] == [
        ("other", "schemas/other.yaml", ["SOURCE_MEMBER_NEW"]),
        ("toy", "schemas/toy.yaml", ["SOURCE_MODEL_GONE !", "SNAPSHOT_MODEL !"]),
    ]
    assert len(compare({"schemas/toy.yaml": old}, [new], all_schemas=False)) == 1
    renamed = load_text(BASE.replace("model: toy", "model: other").encode(), "schemas/toy.yaml")
    assert len(compare({"schemas/toy.yaml": old}, [renamed], all_schemas=False)) == 2


def test_compare_when_only_the_file_has_another_name_then_nothing_is_told() -> None:
    """A model is known by its name, not by its file."""
    old = load_text(BASE.encode(), "main:schemas/toy.yaml")
    new = load_text(BASE.encode(), "schemas/another.yml")
    (found,) = compare({"schemas/toy.yaml": old}, [new], all_schemas=True)
    assert found.changes == ()


# -- the command ----------------------------------------------------------------------------------


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `statekit breaking`."""
    out, err = io.StringIO(), io.StringIO()
    return main(["breaking", *args], out, err), out.getvalue(), err.getvalue()


def git(folder: Path, *arguments: str) -> None:
    """Run git as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(
        ["git", *who, *arguments], cwd=folder, env=environment, check=True, capture_output=True
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a subfolder of a repository, committed as `main`; its folder is the current."""
    root = tmp_path / "repository" / "pro ject"
    (root / "schemas").mkdir(parents=True)
    (root / "pyproject.toml").write_text(TABLE, "utf-8")
    (root / "schemas" / "toy.yaml").write_text(BASE, "utf-8")
    git(root.parent, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    monkeypatch.chdir(root)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return root


def edit(root: Path, old: str, new: str, file: str = "schemas/toy.yaml") -> None:
    """Replace a text of a schema."""
    path = root / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_breaking_when_nothing_changed_then_exit_0(project: Path) -> None:
    """One line says that nothing was found."""
    assert run("--against", "main") == (0, "1 model against main: no breaking change\n", "")


def test_breaking_when_something_breaks_then_exit_1_and_it_is_told(project: Path) -> None:
    """Text groups by model and by who is hurt, and ends with a line that sums up."""
    edit(project, "{bound: RING}", "{bound: 2}")
    edit(project, "  part: {", "  piece: {")
    edit(project, "device: none}", "device: cpu}")
    code, out, err = run("--against", "main")
    assert (code, err) == (1, "")
    assert out == (
        "toy  schemas/toy.yaml\n"
        "=====================\n"
        "\n"
        "SOURCE: breaks code that uses the generated class\n"
        "  reset_part  SOURCE_RESET_GONE  schemas/toy.yaml:77:1\n"
        "    - method\n"
        "    code that calls it fails\n"
        "\n"
        "SNAPSHOT: breaks sessions that were saved\n"
        "  frames  SNAPSHOT_RING  schemas/toy.yaml:25:5\n"
        "    - 4 (RING) items\n"
        "    + 2 items\n"
        "    saved items beyond the bound would be dropped\n"
        "\n"
        "Compatible\n"
        "  reset_piece  method\n"
        "               nothing used it (SOURCE_MEMBER_NEW)\n"
        "  count        none -> cpu\n"
        "               the restore says where data goes (SNAPSHOT_DEVICE)\n"
        "\n"
        "2 breaking changes in 1 of 1 model against main, 2 compatible changes\n"
    )


def test_breaking_when_only_compatible_then_exit_0_and_it_is_shown(project: Path) -> None:
    """What was looked at and is fine is shown too."""
    edit(project, "{bound: RING}", "{bound: 9}")
    code, out, _ = run("--against", "main")
    assert code == 0
    assert "4 (RING) items -> 9 items" in out
    assert out.endswith("1 model against main: no breaking change, 1 compatible change\n")


@pytest.mark.parametrize("width", ["40", "80", "140"])
def test_breaking_when_texts_are_long_and_hostile_then_they_are_shown_within_the_width(
    project: Path, width: str
) -> None:
    """Nothing is read as markup, cut without a sign, or wider than asked for."""
    edit(project, "type: int, default: 0, coerce: int", f"type: str, default: '[red]{'x' * 900}'")
    code, out, _ = run("--against", "main", "--width", width)
    assert code == 1
    assert "[red]xxx" in out.replace("\n", "")
    assert max(map(len, out.splitlines())) <= int(width)
    assert len(out) < 8_000


def test_json_when_written_then_it_has_exactly_the_documented_fields(project: Path) -> None:
    """One document; each change has every documented field in that order."""
    edit(project, "{bound: RING}", "{bound: 2}")
    code, out, _ = run("--against", "main", "--format", "json")
    document = json.loads(out)
    assert code == 1
    assert (document["schema"], document["against"]) == ("statekit.breaking/1", "main")
    (change,) = document["changes"]
    assert list(change) == list(FIELDS)
    assert change == {
        "model": "toy",
        "rule": "SNAPSHOT_RING",
        "class": "SNAPSHOT",
        "breaks": True,
        "subject": "frames",
        "was": "4 (RING) items",
        "now": "2 items",
        "why": "saved items beyond the bound would be dropped",
        "file": "schemas/toy.yaml",
        "line": 25,
        "column": 5,
    }


def test_github_when_written_then_each_change_is_an_annotation(project: Path) -> None:
    """Errors for what breaks, notices for the rest; line ends and signs are escaped."""
    edit(project, "{bound: RING}", "{bound: 2}")
    edit(project, "default: 0, coerce", "default: 7, coerce")
    edit(project, "device: none}", "device: cpu}")
    _, out, _ = run("--against", "main", "--format", "github")
    assert out.splitlines() == [
        "::error file=schemas/toy.yaml,line=15,col=37,title=SOURCE_DEFAULT::count: 0 -> 7; readers "
        "get another value before anything is assigned",
        "::error file=schemas/toy.yaml,line=15,col=37,title=SNAPSHOT_DEFAULT::count: 0 -> 7; where "
        "no data was saved, a session would go on with the new default",
        "::notice file=schemas/toy.yaml,line=15,col=62,title=SNAPSHOT_DEVICE::count: none -> cpu; "
        "the restore says where data goes",
        "::error file=schemas/toy.yaml,line=25,col=5,title=SNAPSHOT_RING::frames: 4 (RING) items "
        "-> 2 items; saved items beyond the bound would be dropped",
    ]


# -- the other side -------------------------------------------------------------------------------


def test_breaking_when_the_project_lay_elsewhere_then_its_own_table_is_read(project: Path) -> None:
    """A revision's schemas are where its own pyproject.toml says; other files don't matter."""
    (project / "schemas").rename(project / "models")
    (project / "models" / "toy.yaml").rename(project / "models" / "toy.yml")
    edit(project, '"schemas"', '"models"', "pyproject.toml")
    assert run("--against", "main") == (0, "1 model against main: no breaking change\n", "")
    assert run("--against", "main", "models/toy.yml")[0] == 0


def test_breaking_when_the_project_was_none_yet_then_all_is_new(project: Path) -> None:
    """Against a revision without schemas, every model is new."""
    git(project, "checkout", "-q", "--orphan", "empty")
    git(project, "rm", "-rqf", "--cached", ".")
    git(project, "commit", "-q", "--allow-empty", "-m", "nothing")
    code, out, _ = run("--against", "empty")
    assert code == 0
    assert "model toy" in out


def test_breaking_when_all_schemas_are_gone_then_that_breaks(project: Path) -> None:
    """A project that lost its last schema is told so."""
    (project / "schemas" / "toy.yaml").rename(project / "schemas" / "toy.txt")
    code, out, _ = run("--against", "HEAD")
    assert code == 1
    assert "SOURCE_MODEL_GONE" in out


def test_breaking_when_git_is_told_of_another_repository_then_it_is_left_out(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a hook, git's variables name a repository; the folder's own is read."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    assert run("--against", "main")[0] == 0


def test_breaking_when_a_schema_is_a_link_then_it_is_followed_within_the_repository(
    project: Path, tmp_path: Path
) -> None:
    """A link to another file of the repository is that file; one that leads out is refused."""
    (project / "shared.yaml").write_text(BASE, "utf-8")
    schema = project / "schemas" / "toy.yaml"
    schema.unlink()
    schema.symlink_to(Path("..") / "shared.yaml")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "link")
    assert run("--against", "HEAD")[0] == 0
    (tmp_path / "outside.yaml").write_text(BASE, "utf-8")
    schema.unlink()
    schema.symlink_to(tmp_path / "outside.yaml")
    git(project, "commit", "-q", "-am", "out")
    code, out, err = run("--against", "HEAD")
    assert (code, out) == (2, "")
    assert "FILE_READABLE at $: a link that leads to no file of the repository" in err


@pytest.mark.parametrize("copy", ["../other", "../other/schemas"])
def test_breaking_when_against_a_folder_then_it_needs_no_git(project: Path, copy: str) -> None:
    """Another copy of the project, or a folder of schemas, is read as it lies there."""
    other = project.parent / "other"
    (other / "schemas").mkdir(parents=True)
    (other / "pyproject.toml").write_text(TABLE, "utf-8")
    (other / "schemas" / "toy.yaml").write_text(BASE.replace("RING: 4", "RING: 9"), "utf-8")
    code, out, _ = run("--against", copy, "--format", "json")
    assert code == 1
    rules = [one["rule"] for one in json.loads(out)["changes"]]
    assert rules == ["SOURCE_CONSTANT", "SNAPSHOT_NUMBER", "SNAPSHOT_RING"]


@pytest.mark.parametrize("name", ["nope", "--help", "-x", "HEAD:schemas", "a\nb", "ma in", "", "é"])
def test_breaking_when_there_is_no_such_revision_then_exit_2(project: Path, name: str) -> None:
    """What git does not know is refused by name, with what to do; nothing is an option of git's."""
    code, out, err = run(f"--against={name}")
    assert (code, out) == (2, "")
    assert "no such revision, and no such folder; name a branch" in err


def test_breaking_when_it_is_no_repository_then_exit_2(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a repository, a revision can't be read; a folder can."""
    (project.parent / ".git").rename(project.parent / "not.git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent.parent))
    code, _, err = run("--against", "main")
    assert code == 2
    assert "not a git repository; run it in a clone, or compare with a folder" in err


def test_breaking_when_there_is_no_git_then_exit_2(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without git on the path, that is said."""
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = run("--against", "main")
    assert (code, err) == (
        2, "git: not installed; install it, or compare with a folder: --against DIR\n"
    )  # fmt: skip


def test_breaking_when_a_folder_has_no_schema_then_exit_2(project: Path) -> None:
    """A folder that is none of a project and holds no schema is refused."""
    (project / "empty").mkdir()
    code, _, err = run("--against", "empty")
    assert code == 2
    assert err.startswith("--against empty: no schema in it; name a folder of schemas")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_breaking_when_a_folder_cannot_be_read_then_exit_2(project: Path) -> None:
    """A folder that is closed to us is told by name, as a failure to run."""
    (project / "closed").mkdir(mode=0o000)
    code, _, err = run("--against", "closed")
    assert code == 2
    assert err.startswith("--against closed: Permission denied; ")


@pytest.mark.parametrize(
    ("toml", "found"),
    [
        ('[tool.statekit]\nschemas = "../elsewhere"', "leaves the project"),
        ('[tool.statekit]\nschemas = "/etc"', "leaves the project"),
        ("[tool", "unreadable"),
    ],
)
def test_breaking_when_the_other_side_is_no_project_then_exit_2(
    project: Path, toml: str, found: str
) -> None:
    """A table that leads out of the project is refused, as today's would be."""
    (project / "pyproject.toml").write_text(toml, "utf-8")
    git(project, "commit", "-q", "-am", "odd")
    (project / "pyproject.toml").write_text(TABLE, "utf-8")
    code, _, err = run("--against", "HEAD")
    assert code == 2
    assert err.startswith("HEAD:pyproject.toml: ")
    assert found in err


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_breaking_when_a_schema_of_either_side_is_unusable_then_exit_2(
    project: Path, form: str
) -> None:
    """The problems of the other side's schemas carry the revision in front of the file."""
    edit(project, "model: toy", "modle: toy")
    git(project, "commit", "-q", "-am", "broken")
    code, out, err = run("--against", "main~1", "--format", form)
    assert (code, out) == (2, "")
    assert re.search(r'^schemas/toy.yaml:2:1: |"file": "schemas/toy.yaml"', err, re.MULTILINE)
    edit(project, "modle: toy", "model: toy")
    code, out, err = run("--against", "main", "--format", form)
    assert (code, out) == (2, "")
    assert "main:schemas/toy.yaml" in err
