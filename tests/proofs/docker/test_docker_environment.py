"""What a container environment does, on a real engine: files, commands, checkpoints with mounted workspaces, the way back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import containers
import mulligan
from mulligan.dialects.chimera import CheckpointManager
from mulligan.environments.container import engine as engine_module
from mulligan.environments.docker import EngineRefused
from mulligan.errors import NothingToRedo, NothingToUndo, UserError


def state(env, project: Path | None = None) -> tuple[str, str, list[str]]:
    """What a test may see of a state: a file in the container, a file mounted into it, the names beside that."""
    inside = env.run_command("cat /etc/state 2>/dev/null").stdout
    outside = (project / "state").read_text() if project and (project / "state").exists() else ""
    return inside, outside, sorted(os.listdir(project)) if project else []


def become(env, project: Path | None, word: str) -> None:
    where = f"echo {word} > /mnt/state; echo {word} > /mnt/only-{word};" if project else ""
    done = env.run_command(f"{where} echo {word} > /etc/state")
    assert done.success, done


# -- files and commands -------------------------------------------------------------------------


def test_files_are_written_read_and_listed(make):
    with make() as env:
        env.write_file("a/b/c.txt", "one\n")
        env.write_file("a/b/c.txt", "two\r\nünï \udcff")
        env.write_file("/workspace/top.py", "")
        assert env.read_file("a/b/c.txt") == "two\r\nünï \udcff"
        assert env.list_files() == ["a/b/c.txt", "top.py"]
        assert env.list_files("*.py") == ["top.py"]
        assert env.list_files("a/**") == ["a/b/c.txt"]
        with pytest.raises(FileNotFoundError):
            env.read_file("a/none")
        with pytest.raises(IsADirectoryError):
            env.read_file("a")
        with pytest.raises(IsADirectoryError):
            env.write_file("a/b", "x")
        with pytest.raises(NotADirectoryError):
            env.write_file("top.py/x", "x")


def test_a_written_file_keeps_its_mode_and_directories_keep_theirs(make):
    with make() as env:
        env.run_command("mkdir -m 700 d; touch d/run; chmod 750 d/run")
        env.write_file("d/run", "#!/bin/sh\n")
        env.write_file("d/new", "x")
        assert env.run_command("stat -c '%a %n' d d/run d/new").stdout.split("\n")[:3] == [
            "700 d",
            "750 d/run",
            "644 d/new",
        ]


def test_paths_that_leave_the_working_directory_are_refused(make):
    with make() as env:
        env.run_command(
            "ln -s /etc out; ln -s ../etc/passwd up; ln -s inner/deep in; mkdir inner; echo ok > inner/deep; ln -s loop loop; mkfifo pipe"
        )
        for path in ("/etc/passwd", "../etc/passwd", "out/passwd", "up", "out", "a\0b"):
            with pytest.raises(PermissionError, match="Path escapes workdir"):
                env.read_file(path)
            with pytest.raises(PermissionError, match="Path escapes workdir"):
                env.write_file(path, "owned")
        assert env.read_file("in") == "ok\n"
        env.write_file("in", "through")
        assert env.run_command("readlink in; cat inner/deep").stdout == "inner/deep\nthrough"
        with pytest.raises((OSError, EngineRefused)):
            env.read_file("loop")
        with pytest.raises(PermissionError, match="Not a regular file"):
            env.read_file("pipe")
        assert "owned" not in env.run_command("cat /etc/passwd").stdout


def test_a_file_too_large_for_memory_is_refused_before_it_is_read(make):
    with make() as env:
        env.run_command("truncate -s 300G sparse 2>/dev/null || truncate -s 1G sparse")
        with pytest.raises(PermissionError, match="bytes"):
            env.read_file("sparse")


def test_commands_give_both_outputs_and_their_exit_code(make):
    with make(environment={"GREETING": 'hello $HOME "quoted"'}, user="1000") as env:
        done = env.run_command('echo "$GREETING"; pwd; id -u; echo oh >&2; exit 7')
        assert (done.stdout, done.stderr, done.exit_code) == ('hello $HOME "quoted"\n/workspace\n1000\n', "oh\n", 7)
        assert env.run_command("printf 'a\\377b'").stdout == "a\ufffdb"
        assert env.run_command("no-such-program").exit_code == 127
        assert env.run_command("kill -9 $$").exit_code == 137


def test_a_command_out_of_time_ends_with_all_it_started_and_nothing_else_does(make):
    with make() as env:
        env.run_command("(setsid sleep 7200 >/dev/null 2>&1 &)")
        done = env.run_command("echo begun; (setsid sleep 7300 &) ; sleep 7400", timeout=1)
        assert done.exit_code == 124 and "begun\n".startswith(done.stdout)
        assert "timed out after 1 s" in done.stderr
        left = env.run_command("ps").stdout
        assert "sleep 7200" in left
        assert "sleep 7300" not in left and "sleep 7400" not in left


def test_tests_are_counted(make):
    with make(test_cmd="echo '= 3 passed, 2 failed, 1 error in 0.1s ='; false") as env:
        result = env.run_tests()
        assert (result.passed, result.failed, result.errors, result.total) == (3, 2, 1, 6)


# -- checkpoints --------------------------------------------------------------------------------


def test_a_checkpoint_takes_the_container_and_the_mounted_files_back_together(make, project, engine):
    settings = {
        "environment": {"A": "b c"},
        "user": "0",
        "labels": {"owner": "me"},
        "ports": {80: ("127.0.0.1", 18123)},
    }
    with make(mounts={project: "/mnt"}, name="together", workdir="/srv/app", **settings) as env:
        become(env, project, "one")
        before = engine.api.inspect_container("together")
        first = env.checkpoint()
        assert len(first) == 8 and int(first, 16) >= 0
        env.run_command("rm -r /bin/vi /tmp; echo made > /srv/app/made")
        become(env, project, "two")

        env.restore(first)
        assert state(env, project) == ("one\n", "one\n", ["only-one", "state"])
        assert env.list_files() == []
        assert env.run_command("ls -d /bin/vi /tmp").success
        after = engine.api.inspect_container("together")
        assert engine.containers() == ["together"]
        for key in ("User", "Cmd", "Entrypoint", "WorkingDir", "Hostname", "ExposedPorts"):
            assert after["Config"].get(key) == before["Config"].get(key), key
        assert "A=b c" in after["Config"]["Env"]
        assert after["Config"]["Labels"]["owner"] == "me"
        assert after["HostConfig"]["PortBindings"] == before["HostConfig"]["PortBindings"]
        assert [(m["Source"], m["Destination"]) for m in after["Mounts"]] == [(str(project), "/mnt")]
        assert after["Id"] != before["Id"]

        env.undo()
        assert state(env, project) == ("two\n", "two\n", ["only-one", "only-two", "state"])
        assert env.list_files() == ["made"]
        env.redo()
        assert state(env, project) == ("one\n", "one\n", ["only-one", "state"])
        with pytest.raises(NothingToRedo):
            env.redo()


def test_undo_walks_back_restore_by_restore(make):
    with make() as env:
        with pytest.raises(NothingToUndo):
            env.undo()
        become(env, None, "one")
        first = env.checkpoint()
        become(env, None, "two")
        env.restore(first)
        become(env, None, "three")
        env.restore(first)
        env.undo()
        assert state(env)[0] == "three\n"
        env.undo()
        assert state(env)[0] == "two\n"
        with pytest.raises(NothingToUndo):
            env.undo()
        env.redo()
        assert state(env)[0] == "three\n"


def test_an_unknown_id_changes_nothing(make, project, engine):
    with make(mounts={project: "/mnt"}) as env:
        become(env, project, "one")
        known = env.checkpoint()
        before = (
            engine.containers(),
            engine.tags(),
            engine.api.containers()[0]["Id"],
            len(mulligan.open(project).log()),
        )
        for wrong in ("deadbeef", "", known[:7], known + "0", "../x", "-"):
            with pytest.raises(ValueError, match=f"^Checkpoint {wrong} not found$"):
                env.restore(wrong)
        now = (engine.containers(), engine.tags(), engine.api.containers()[0]["Id"], len(mulligan.open(project).log()))
        assert now == before


def test_container_and_mounted_files_are_of_one_moment_and_processes_go_on(make, project, engine):
    """A program writes one number here and there, as fast as it can: in a checkpoint the two are the same, or neighbours."""
    with make(mounts={project: "/mnt"}, name="counting") as env:
        loop = "i=0; while :; do i=$((i+1)); for d in /mnt /srv; do echo $i > $d/t; mv $d/t $d/n; done; done"
        env.run_command(f"mkdir /srv; (setsid sh -c '{loop}' >/dev/null 2>&1 &)")
        first = env.checkpoint()
        assert engine.api.inspect_container("counting")["State"]["Status"] == "running"
        before = int(env.run_command("cat /srv/n").stdout)
        env.restore(first)
        inside, outside = int(env.run_command("cat /srv/n").stdout), int((project / "n").read_text())
        assert inside <= before
        assert 0 <= outside - inside <= 1
        assert [(c.complete, c.still) for c in env.checkpoints()] == [(True, True)] * 2


def test_checkpoints_outlive_the_process_the_container_and_the_record(make, project, engine):
    env = make(mounts={project: "/mnt"}, name="again")
    env.setup()
    become(env, project, "one")
    first = env.checkpoint_as("first", "the one that works")
    env.add_record({"id": first, "name": "first"})
    become(env, project, "two")

    other = make(name="again")
    other.setup()
    assert state(other, project)[0] == "two\n"
    assert [(c.id, c.name, c.description, c.kind) for c in other.checkpoints()] == [
        (first, "first", "the one that works", "manual")
    ]
    assert other.records() == [{"id": first, "name": "first"}]
    other.restore(first)
    assert state(other, project) == ("one\n", "one\n", ["only-one", "state"])
    # The first object did not know of the new container; it finds it.
    assert state(env, project)[0] == "one\n"

    env.cleanup()
    assert engine.containers() == []
    third = make(mounts={project: "/mnt"}, name="again")
    third.setup()
    assert state(third)[0] == ""
    third.restore(first)
    assert state(third, project)[0] == "one\n"
    assert other.checkpoint_ids()[0] == first


def test_a_manager_of_named_checkpoints_works_on_a_container(make):
    """The dialect's own quick start, on a container, and again by another manager."""
    with make(name="managed") as env:
        become(env, None, "one")
        CheckpointManager(env).create(name="before-refactor", description="Clean state before refactoring")
        become(env, None, "two")
        manager = CheckpointManager(make(name="managed"))
        manager.env.setup()
        assert [(each.name, each.description) for each in manager.list_checkpoints()] == [
            ("before-refactor", "Clean state before refactoring")
        ]
        assert manager.restore_by_name("before-refactor").name == "before-refactor"
        assert state(env)[0] == "one\n"


def test_another_container_of_the_same_name_is_not_used_by_mistake(make, project, tmp_path):
    make(mounts={project: "/mnt"}, name="mine").setup()
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UserError, match="other mounts"):
        make(mounts={tmp_path / "elsewhere": "/mnt"}, name="mine").setup()
    make(name="mine").setup()


def test_old_checkpoints_go_and_those_in_use_stay(make, project, engine):
    with make(mounts={project: "/mnt"}, retain=2) as env:
        become(env, project, "one")
        first = env.checkpoint()
        env.restore(first)
        ids = [env.checkpoint() for _ in range(4)]
        kept = [c.id for c in env.checkpoints() if c.kind == "manual"]
        # The container stands on the first one, so it stays with the newest two.
        assert kept == [first, *ids[-2:]]
        saved = {c.metadata.get("container_checkpoint") for c in mulligan.open(project).log()}
        assert {*kept} <= saved and not {*ids[:-2]} & saved
        env.restore(ids[-1])
        env.checkpoint()
        assert first not in env.checkpoint_ids()
        become(env, project, "two")
        env.restore(ids[-1])
        assert state(env, project) == ("one\n", "one\n", ["only-one", "state"])


def test_a_clone_is_a_second_one_and_each_goes_its_way(make, project, engine):
    (project / "shared").mkdir()
    with make(mounts={project: "/mnt"}) as env:
        become(env, project, "one")
        env.write_file("here.txt", "same")
        with env.clone() as twin:
            assert twin.read_file("here.txt") == "same"
            assert twin.run_command("cat /mnt/state /etc/state; ls -d /mnt/shared").stdout == "one\none\n/mnt/shared\n"
            twin.run_command("echo twin > /mnt/state; echo twin > /etc/state")
            saved = twin.checkpoint()
            twin.run_command("echo later > /etc/state")
            twin.restore(saved)
            assert twin.run_command("cat /mnt/state /etc/state").stdout == "twin\ntwin\n"
            assert state(env, project) == ("one\n", "one\n", ["only-one", "shared", "state"])
        assert len(engine.containers()) == 1


def test_what_is_left_is_removed_where_the_mounted_directory_is_gone(make, project, engine):
    """Another environment of that name cleans up, after the directory went and before anything of it was saved."""
    other = make(mounts={project: "/mnt"}, name="left")
    make(mounts={project: "/mnt"}, name="left").setup()
    project.rmdir()
    other.cleanup(images=True)
    assert engine.containers() == []


def test_a_read_only_mount_is_neither_saved_nor_touched(make, project):
    (project / "given").write_text("as it is")
    with make(mounts={project: "/mnt:ro"}) as env:
        first = env.checkpoint()
        assert not env.run_command("echo x > /mnt/given").success
        (project / "given").write_text("changed outside")
        env.restore(first)
        assert (project / "given").read_text() == "changed outside"
        assert mulligan.open(project).log() == []


def test_volumes_stay_with_the_environment(make, engine):
    """Volumes are not in a checkpoint; a restore neither takes them back nor loses them, named by somebody or not."""
    name = "mulligan-test-data"
    engine.api.create_volume(name)
    box = engine.api.create_container(containers.IMAGE, ["/bin/true"])["Id"]
    engine.api.commit(box, repository="localhost/with-volume", tag="1", changes=["VOLUME /anonymous"])
    engine.api.remove_container(box)
    options = {"network_mode": "none", "mounts": [{"Type": "volume", "Source": name, "Target": "/named"}]}
    try:
        with make("localhost/with-volume:1", options=options) as env:
            env.run_command("echo one | tee /named/x /anonymous/x")
            first = env.checkpoint()
            env.run_command("echo two | tee /named/x /anonymous/x")
            env.restore(first)
            assert env.run_command("cat /named/x /anonymous/x").stdout == "two\ntwo\n"
    finally:
        engine.api.remove_volume(name)
        engine.api.remove_image("localhost/with-volume:1")
    assert not engine.api.volumes()["Volumes"]


def test_a_port_moves_from_the_old_container_to_the_new(make):
    """Two containers cannot listen on one port: the old one is ended before the new one starts."""
    port = 20000 + os.getpid() % 10000
    command = f"httpd -f -p 127.0.0.1:{port} -h /srv"
    with make(command=["/bin/sh", "-c", f"mkdir -p /srv; exec {command}"], options={"network_mode": "host"}) as env:
        env.run_command("echo one > /srv/x")
        first = env.checkpoint()
        env.run_command("echo two > /srv/x")
        env.restore(first)
        assert env.run_command(f"wget -qO- http://127.0.0.1:{port}/x").stdout == "one\n"


def test_many_generations_do_not_run_out_of_layers(make, monkeypatch):
    """Each generation of checkpoint and restore adds a layer, and engines end at about 125: before that one is made flat."""
    monkeypatch.setattr(engine_module, "MOST_LAYERS", 2)
    with make() as env:
        for word in ("one", "two"):
            become(env, None, word)
            env.run_command(f"rm -f /srv/*; mkdir -p /srv; echo x > /srv/{word}; chmod 640 /srv/{word}")
            saved = env.checkpoint()
            env.restore(saved)
            assert state(env)[0] == f"{word}\n"
            assert env.run_command("stat -c '%a %n' /srv/*").stdout == f"640 /srv/{word}\n"


def test_checkpoints_made_before_setup_are_kept(make):
    """Seed 003: `CheckpointManager(env)` works on any environment, whether or not it was set up before."""
    env = make()
    manager = CheckpointManager(env)
    env.write_file("a.txt", "one\n")
    first = manager.create("one")
    env.write_file("a.txt", "two\n")
    env.write_file("b.txt", "b\n")
    second = manager.create("two")
    env.write_file("a.txt", "three\n")
    env.setup()
    assert env.read_file("a.txt") == "three\n"
    assert [each.id for each in manager.list_checkpoints()] == [first.id, second.id]
    manager.restore_by_id(first.id)
    assert (env.read_file("a.txt"), env.list_files()) == ("one\n", ["a.txt"])
    manager.restore_by_name("two")
    assert (env.read_file("a.txt"), env.read_file("b.txt")) == ("two\n", "b\n")
