"""The real Codex, told by a scripted model to break things; one undo brings every byte back."""

from __future__ import annotations

from clients import approve_codex_hooks, codex_argv, configure_codex
from scripted_model import Say, Use, scripted

PATCH = """\
*** Begin Patch
*** Add File: patched.txt
+hi
*** Update File: a.txt
@@
-hello
+bye
*** Delete File: run.sh
*** End Patch
"""
BREAKING = [
    Use("exec_command", {"cmd": "echo x > sh.txt; rm -r src; rm data.bin; exit 3"}),
    Use("apply_patch", PATCH, raw=True),
    Say("All done."),
]


def turn(project, codex, model, prompt):
    done = project.run(codex_argv(codex, prompt), SCRIPTED_KEY="x")
    assert done.returncode == 0, done.stdout + done.stderr
    assert model.asked


def test_one_undo_after_a_shell_command_that_fails_and_a_patch_and_doctor_about_trust(agents_project, codex):
    project = agents_project
    project.mulligan("install", "codex", "--scope", "user")
    harmless = [Use("exec_command", {"cmd": "echo 1 > first.txt"}), Say("Hello.")]
    with scripted({"say hello": harmless, "break it": BREAKING}) as model:
        configure_codex(project, model.url)
        # Nobody approved the hooks yet: Codex passes over them without a word, and doctor says so.
        turn(project, codex, model, "say hello")
        assert project.mulligan("log")["checkpoints"] == [] and "first.txt" in project.everything()
        (agent,) = project.mulligan("doctor")["agents"]
        assert "does not trust 6" in agent["problem"]
        assert set(approve_codex_hooks(project, codex)) == {"untrusted"}
        assert "does not trust" not in project.mulligan("doctor")["agents"][0]["problem"]
        before = project.everything()
        turn(project, codex, model, "break it")
    broken = project.everything()
    assert {"sh.txt", "patched.txt"} <= set(broken) and not {"src/app.py", "data.bin", "run.sh"} & set(broken)
    project.mulligan("undo")
    assert project.everything() == before
    steps = project.mulligan("log", "--kind", "step")["checkpoints"]
    causes = [each["metadata"]["agent"] for each in reversed(steps)][1:]
    assert [(each["agent"], each["name"], each["input"]) for each in causes] == [
        ("codex", "Bash", "echo x > sh.txt; rm -r src; rm data.bin; exit 3"),
        ("codex", "apply_patch", "patched.txt, a.txt, run.sh"),
    ]
    assert project.mulligan("doctor")["agents"] == [
        {"agent": "codex", "files": [str(project.home / ".codex/hooks.json")], "problem": ""}
    ]
