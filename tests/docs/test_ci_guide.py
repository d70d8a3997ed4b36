"""The guide to CI: its recipe is run on changes that it must let pass, and on some it must not.

The hooks are run by pre-commit itself, out of a repository that holds what a release would.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.conftest import PYPROJECT, SCHEMA
from tests.docs.walk import Block, blocks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GUIDE = blocks(ROOT / "docs" / "guides" / "ci.md")
HOOKS = ROOT / ".pre-commit-hooks.yaml"

ADDED = """\
  flag:
    bucket: attrs
    doc: Whether the camera moved.
    type: bool
    default: false
    device: none
    decision: {operations: [], why: The model alone reads it.}
resets:
"""


def titled(title: str) -> Any:
    """What the file of that name in the guide says."""
    (text,) = (block.text for block in GUIDE if block.title == title)
    return yaml.safe_load(text)


WORKFLOW = titled(".github/workflows/statekit.yml")
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["schemas"]["steps"]
BASE = {
    name: text.replace("${{ github.base_ref }}", "main")
    for name, text in WORKFLOW["jobs"]["schemas"]["env"].items()
}
COMMANDS = [step["run"] for step in STEPS if "run" in step]
INSTALL = "pip install 'statekit[codegen]'"


def outside() -> dict[str, str]:
    """The environment of a runner: not inside somebody's git hook, and no terminal."""
    told = ("FORCE_COLOR", "COLUMNS")
    return {k: v for k, v in os.environ.items() if not k.startswith("GIT_") and k not in told}


@attrs.frozen
class Ran:
    """How a step of the recipe ended."""

    command: str
    code: int
    output: str


@attrs.frozen
class Project:
    """A project under git with its base as `origin/main`, and a pull request on top."""

    folder: Path

    def run(self, command: str) -> Ran:
        """Run a line as a runner of GitHub does."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", command],
            cwd=self.folder,
            env={
                **outside(),
                "PATH": path,
                **BASE,
                "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        return Ran(command, done.returncode, done.stdout)

    def git(self, *args: str) -> None:
        """Run git in the project."""
        identity = ["-c", "user.name=A Reviewer", "-c", "user.email=reviewer@example.com"]
        subprocess.run(
            ["git", *identity, *args],
            cwd=self.folder,
            env=outside(),
            check=True,
            capture_output=True,
        )

    def change(self, old: str, new: str, *, generate: bool = True) -> None:
        """Commit a change of the schema."""
        schema = self.folder / "schemas" / "toy.yaml"
        text = schema.read_text(encoding="utf-8")
        assert old in text
        schema.write_text(text.replace(old, new, 1), encoding="utf-8")
        if generate:
            assert self.run("statekit generate").code == 0
        self.git("add", "--all")
        self.git("commit", "--message", "A change")

    def step(self, words: str) -> Ran:
        """Run the one step of the recipe whose command has `words`."""
        (command,) = (command for command in COMMANDS if words in command)
        return self.run(command)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The base, with its adapter."""
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "toy.yaml").write_text(
        SCHEMA.replace("{clears: all}", "{clears: all, doc: A new rollout.}"), encoding="utf-8"
    )
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    made = Project(tmp_path)
    made.git("init", "--quiet", "--initial-branch", "change")
    assert made.run("statekit generate").code == 0
    made.git("add", "--all")
    made.git("commit", "--message", "The base")
    made.git("update-ref", "refs/remotes/origin/main", "HEAD")
    return made


def test_workflow_when_read_then_it_is_one_and_its_actions_are_pinned() -> None:
    """Each step runs or uses one thing; actions are named by their hash; nothing may be written."""
    assert {"name", "permissions", "jobs"} < {str(key) for key in WORKFLOW}
    assert "pull_request" in WORKFLOW[True]  # `on`, to a reader of YAML 1.1
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert all(("run" in step) != ("uses" in step) for step in STEPS)
    used = [step["uses"] for step in STEPS if "uses" in step]
    ours = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in used)
    assert all(action in ours for action in used)
    assert COMMANDS[0] == INSTALL


def test_recipe_when_a_change_is_sound_then_every_step_passes(project: Project) -> None:
    """A value is added and the adapter is up to date: nothing fails, and the summary shows it."""
    project.change("resets:\n", ADDED)
    ran = [project.run(command) for command in COMMANDS if command != INSTALL]
    assert [one for one in ran if one.code] == []
    summary = (project.folder / "summary.md").read_text(encoding="utf-8")
    assert "1 value added" in summary
    assert "flag" in summary


def test_recipe_when_an_adapter_is_stale_then_that_step_fails(project: Project) -> None:
    """A schema that was changed alone is found by `generate --check`."""
    project.change("doc: Steps so far.", "doc: Forwards so far.", generate=False)
    ran = project.step("generate --check")
    assert ran.code == 1
    assert "src/toy/generated/toy.py" in ran.output


def test_recipe_when_a_rule_is_broken_then_vet_points_at_the_line(project: Project) -> None:
    """What vet finds becomes an annotation of the pull request."""
    project.change("    doc: Steps so far.\n", "", generate=False)
    ran = project.step("vet")
    assert ran.code == 1
    assert ran.output.startswith("::error file=schemas/toy.yaml,line=6,")


def test_recipe_when_a_bucket_moves_without_a_reason_then_review_fails(project: Project) -> None:
    """A move whose decision is the old one is what a reviewer must see."""
    project.change(
        "bucket: attrs\n    doc: Steps so far.\n    type: int\n    default: 0\n    coerce: int\n",
        "bucket: StateObject\n    object: HeldValue\n    doc: Steps so far.\n    type: int\n",
        generate=False,
    )
    assert project.step("--exit-code").code == 1


def test_recipe_when_callers_would_break_then_breaking_fails(project: Project) -> None:
    """A value that is gone is named with whom it hurts."""
    project.change("resets:\n", ADDED, generate=False)
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    project.change(ADDED, "resets:\n", generate=False)
    ran = project.step("breaking")
    assert ran.code == 1
    assert "SOURCE_VALUE_GONE" in ran.output


def test_shell_blocks_when_run_in_a_project_then_they_succeed(project: Project) -> None:
    """The other commands of the page, as they stand."""
    shell: list[Block] = [block for block in GUIDE if block.language == "sh"]
    assert shell
    for block in shell:
        ran = project.run(block.text)
        assert (ran.code, ran.output) == (0, "0 findings\n")


def test_local_hook_when_its_entry_is_run_then_it_passes(project: Project) -> None:
    """The hook for a machine that has statekit runs a command that there is."""
    (local,) = (
        yaml.safe_load(block.text)[0] for block in GUIDE if block.text.startswith("- repo: local")
    )
    assert [project.run(hook["entry"]).code for hook in local["hooks"]] == [0]


def test_hooks_when_read_then_they_are_those_of_the_guide() -> None:
    """Each hook that the guide names is in the file, and none beside them."""
    offered = {hook["id"]: hook for hook in yaml.safe_load(HOOKS.read_text(encoding="utf-8"))}
    ((repo),) = titled(".pre-commit-config.yaml")["repos"]
    assert [hook["id"] for hook in repo["hooks"]] == list(offered)
    assert all(hook["language"] == "python" for hook in offered.values())
    assert {hook["entry"] for hook in offered.values()} == {"statekit generate", "statekit vet"}


@pytest.mark.slow
def test_hooks_when_run_by_pre_commit_then_they_find_what_the_commands_find(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As the guide configures them: a stale adapter is written, a broken rule named, once each."""
    pytest.importorskip("pre_commit", reason="pre-commit runs the hooks")
    release = Project(tmp_path_factory.mktemp("release"))
    for name in ("pyproject.toml", "README.md", "LICENSE", HOOKS.name):
        shutil.copy(ROOT / name, release.folder)
    for name in ("statekit", "codegen"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, release.folder / name, ignore=ignored)
    release.git("init", "--quiet")
    release.git("add", "--all", "--force")
    release.git("commit", "--message", "A release")

    sha = release.run("git rev-parse HEAD").output.strip()
    (config,) = (block.text for block in GUIDE if block.title == ".pre-commit-config.yaml")
    repo = f"repo: {release.folder}\n"
    config = re.sub(r"repo: https.*\n", repo, config).replace("rev: v0.1.0", f"rev: {sha}")
    (project.folder / ".pre-commit-config.yaml").write_text(config, encoding="utf-8")

    def hooks() -> tuple[int, str]:
        project.git("add", "--all")
        # The hooks' environment finds the dependencies here: nothing is fetched.
        done = subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--all-files"],
            cwd=project.folder,
            env={
                **outside(),
                "PRE_COMMIT_HOME": str(release.folder.parent / "pre-commit"),
                "PIP_NO_INDEX": "1",
                "PIP_NO_DEPS": "1",
                "PIP_NO_BUILD_ISOLATION": "0",
                "PYTHONPATH": str(Path(attrs.__file__).parents[1]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout

    project.change("    doc: Steps so far.\n", "", generate=False)
    code, said = hooks()
    assert code == 1
    assert "files were modified by this hook" in said
    assert "VALUE_DOC" in said
    project.change("    type: int\n", "    doc: Steps.\n    type: int\n")
    code, said = hooks()
    assert code == 0, said
