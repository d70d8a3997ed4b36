"""`statekit generate`, as a user runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OUTPUT = "src/toy/generated"
Statekit = Callable[..., Any]


def test_generate_when_first_run_then_writes_and_says_so(toy: Path, statekit: Statekit) -> None:
    """One line a file: what was written, then what was left."""
    first = statekit("generate")
    assert (first.code, first.stderr) == (0, "")
    assert first.stdout == f"wrote      {OUTPUT}/__init__.py\nwrote      {OUTPUT}/toy.py\n"
    second = statekit("generate")
    assert second.stdout == f"unchanged  {OUTPUT}/__init__.py\nunchanged  {OUTPUT}/toy.py\n"


def test_generate_when_in_a_subfolder_then_works_the_same(
    toy: Path, statekit: Statekit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project is found from any folder in it; paths are shown from its root."""
    monkeypatch.chdir(toy / "schemas")
    assert statekit("generate", "toy.yaml").stdout.endswith(f"wrote      {OUTPUT}/toy.py\n")
    assert (toy / OUTPUT / "toy.py").is_file()
    assert statekit("generate", "--check").code == 0


def test_generate_when_in_two_folders_then_bytes_are_equal(
    toy: Path, statekit: Statekit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where a project lies does not get into its generated files."""
    statekit("generate")
    here = {path.name: path.read_bytes() for path in (toy / OUTPUT).iterdir()}
    moved = toy.rename(tmp_path / "moved to, another place")
    for path in (moved / OUTPUT).iterdir():
        path.unlink()
    monkeypatch.chdir(moved)
    statekit("generate")
    assert {path.name: path.read_bytes() for path in (moved / OUTPUT).iterdir()} == here


def test_check_when_nothing_is_generated_then_names_missing_files(
    toy: Path, statekit: Statekit
) -> None:
    """Missing files are named, with their text as a difference, and nothing is written."""
    ran = statekit("generate", "--check")
    assert (ran.code, ran.stderr) == (1, "")
    lines = ran.stdout.splitlines()
    assert lines[:2] == [f"missing    {OUTPUT}/__init__.py", f"missing    {OUTPUT}/toy.py"]
    assert lines[2:5] == ["--- /dev/null", f"+++ b/{OUTPUT}/__init__.py", "@@ -0,0 +1,6 @@"]
    assert lines[-1] == "2 of 2 files are stale; run: statekit generate"
    assert not (toy / "src").exists()


def test_check_when_up_to_date_then_exit_0(toy: Path, statekit: Statekit) -> None:
    """A project whose files match its schemas is clean."""
    statekit("generate")
    ran = statekit("generate", "--check")
    assert (ran.code, ran.stdout, ran.stderr) == (0, "all 2 files are up to date\n", "")


def test_check_when_a_file_was_edited_or_orphaned_then_names_both(
    toy: Path, statekit: Statekit
) -> None:
    """A changed file comes with its difference; an orphan is named."""
    statekit("generate")
    path = toy / OUTPUT / "toy.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("A counter.", "No reason."), encoding="utf-8")
    (toy / OUTPUT / "gone.py").write_text(text.split("\n")[0] + "\n", encoding="utf-8")
    before = path.stat().st_mtime_ns
    ran = statekit("generate", "--check")
    assert ran.code == 1
    lines = ran.stdout.splitlines()
    assert lines[:4] == [
        f"orphan     {OUTPUT}/gone.py",
        f"changed    {OUTPUT}/toy.py",
        f"--- a/{OUTPUT}/toy.py",
        f"+++ b/{OUTPUT}/toy.py",
    ]
    assert "-    Decision: No reason." in lines
    assert "+    Decision: A counter." in lines
    assert lines[-1] == "2 of 3 files are stale; run: statekit generate"
    assert path.stat().st_mtime_ns == before
    assert (toy / OUTPUT / "gone.py").exists()


def test_check_when_only_an_orphan_is_stale_then_says_prune(toy: Path, statekit: Statekit) -> None:
    """The advice is a command that helps: plain generate would leave an orphan."""
    statekit("generate")
    header = (toy / OUTPUT / "toy.py").read_text(encoding="utf-8").split("\n")[0]
    (toy / OUTPUT / "gone.py").write_text(header + "\n", encoding="utf-8")
    ran = statekit("generate", "--check")
    assert ran.code == 1
    assert ran.stdout.splitlines()[-1] == ("1 of 3 files are stale; run: statekit generate --prune")


def test_diff_when_stale_then_prints_only_the_difference(toy: Path, statekit: Statekit) -> None:
    """`--diff` writes nothing and finds nothing wrong; its output is a patch."""
    ran = statekit("generate", "--diff")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("--- /dev/null\n")
    assert "stale" not in ran.stdout
    assert not (toy / "src").exists()
    statekit("generate")
    assert statekit("generate", "--diff").stdout == ""


def test_check_and_diff_when_combined_then_are_as_check(toy: Path, statekit: Statekit) -> None:
    """Both together name the files, print the difference and exit with 1."""
    assert statekit("generate", "--check", "--diff") == statekit("generate", "--check")


def test_generate_when_a_schema_is_gone_then_reports_and_prune_deletes(
    toy: Path, statekit: Statekit
) -> None:
    """An orphan is reported by a plain run, and deleted only on request."""
    statekit("generate")
    (toy / OUTPUT / "toy.py").rename(toy / OUTPUT / "gone.py")
    ran = statekit("generate")
    assert ran.code == 0
    assert ran.stdout == (
        f"unchanged  {OUTPUT}/__init__.py\norphan     {OUTPUT}/gone.py\n"
        f"wrote      {OUTPUT}/toy.py\n"
        "an orphan has no schema any more; to delete it: statekit generate --prune\n"
    )
    assert "+++ /dev/null\n" in statekit("generate", "--diff", "--prune").stdout
    assert (toy / OUTPUT / "gone.py").exists()
    assert f"deleted    {OUTPUT}/gone.py\n" in statekit("generate", "--prune").stdout
    assert not (toy / OUTPUT / "gone.py").exists()


def test_generate_when_a_schema_is_wrong_then_exit_2_and_nothing_written(
    toy: Path, statekit: Statekit
) -> None:
    """All problems go to stderr, by place; not even the good schemas are written."""
    (toy / "schemas" / "bad.yaml").write_text("statekit: 1\nmodel: bad\n", encoding="utf-8")
    ran = statekit("generate")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("schemas/bad.yaml:1:1: MISSING_KEY at $")
    assert not (toy / "src").exists()


def test_generate_when_move_has_no_device_then_exit_2_with_its_place(
    toy: Path, statekit: Statekit
) -> None:
    """A value that cannot become code is named by place, rule and cure, as any other problem."""
    path = toy / "schemas" / "toy.yaml"
    value = (
        "  once: {bucket: StateObject, object: EncodeOnce, type: torch.Tensor, device: model,\n"
        "    on_commit: [move]}\n"
    )
    text = path.read_text(encoding="utf-8").replace("resets:", value + "resets:")
    path.write_text(text, encoding="utf-8")
    ran = statekit("generate")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == (
        "schemas/toy.yaml:15:5: ON_COMMIT_MOVE at $.values.once.on_commit: "
        "move with device: model, which names no device; "
        "name the device, such as cpu, or do not move\n"
    )


def test_generate_when_a_hand_written_file_is_in_the_way_then_exit_2(
    toy: Path, statekit: Statekit
) -> None:
    """The file is named with what to do, for writing and for checking."""
    (toy / OUTPUT).mkdir(parents=True)
    (toy / OUTPUT / "toy.py").write_text("mine\n", encoding="utf-8")
    for arguments in (("generate",), ("generate", "--check")):
        ran = statekit(*arguments)
        assert (ran.code, ran.stdout) == (2, "")
        assert ran.stderr == (
            f"{OUTPUT}/toy.py: was not generated: its first line is not "
            "'# Code generated ... DO NOT EDIT.'; "
            "move it out of the output folder, or name another model\n"
        )
    assert [path.name for path in (toy / OUTPUT).iterdir()] == ["toy.py"]


@pytest.mark.parametrize("name", ["../other.yaml", "schemas/toy.txt", "schemas/.toy.yaml"])
def test_generate_when_a_chosen_file_is_no_schema_of_the_project_then_exit_2(
    toy: Path, statekit: Statekit, name: str
) -> None:
    """What a run over all schemas would not find would be an orphan at once; it is refused."""
    (toy / name).write_bytes((toy / "schemas/toy.yaml").read_bytes())
    ran = statekit("generate", name)
    assert ran.code == 2
    assert "not a schema of this project; put it into schemas/ as NAME.yaml" in ran.stderr
    assert not (toy / "src").exists()


def test_generate_when_there_is_no_project_then_says_what_to_write(
    tmp_path: Path, statekit: Statekit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside a project the message shows the table that makes one."""
    monkeypatch.chdir(tmp_path)
    ran = statekit("generate")
    assert (ran.code, ran.stdout) == (2, "")
    assert "[tool.statekit]" in ran.stderr


def test_generate_when_check_and_prune_are_given_then_exit_2(toy: Path, statekit: Statekit) -> None:
    """An option that writes does not go with one that promises not to."""
    ran = statekit("generate", "--check", "--prune")
    assert ran.code == 2
    assert "--check writes nothing, so it does not go with --prune" in ran.stderr


def test_help_when_asked_for_then_fits_a_screen_and_has_an_example(statekit: Statekit) -> None:
    """The help is at most 24 lines of 80 columns."""
    ran = statekit("generate", "--help")
    lines = ran.stdout.splitlines()
    assert ran.code == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "  statekit generate --check" in ran.stdout
