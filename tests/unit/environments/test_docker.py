"""A container environment without an engine: in memory, unreachable, or asked for something it must refuse."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mulligan.environments import DockerEnvironment
from mulligan.environments.container.request import make_request, refuse_other_request
from mulligan.environments.docker import EngineRefused, EngineUnreachable
from mulligan.errors import NothingToRedo, NothingToUndo, UserError
from mulligan.settings import variables


def test_without_the_docker_package_one_sentence_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(ImportError, match="pip install docker"):
        DockerEnvironment()


# -- no container -------------------------------------------------------------------------------


def test_before_setup_files_live_in_memory_and_go_back():
    env = DockerEnvironment()
    env.write_file("a.py", "v1")
    first = env.checkpoint()
    assert len(first) == 8 and int(first, 16) >= 0
    env.write_file("a.py", "v2")
    env.write_file("deep/b.py", "")
    assert env.list_files() == ["a.py", "deep/b.py"]
    assert env.list_files("*.py") == ["a.py"]
    env.restore(first)
    assert env.read_file("a.py") == "v1"
    assert env.list_files() == ["a.py"]
    assert env.checkpoint_ids() == [first]
    with pytest.raises(ValueError, match=r"^Checkpoint nope not found$"):
        env.restore("nope")
    with pytest.raises(FileNotFoundError):
        env.read_file("deep/b.py")
    with pytest.raises(IsADirectoryError):
        env.write_file(".", "")


def test_before_setup_a_checkpoint_is_not_changed_by_what_comes_after():
    env = DockerEnvironment()
    env.write_file("a", "1")
    first = env.checkpoint()
    env.restore(first)
    env.write_file("a", "2")
    env.restore(first)
    assert env.read_file("a") == "1"


def test_before_setup_there_is_nothing_to_run_undo_or_list():
    env = DockerEnvironment()
    done = env.run_command("true")
    assert (done.stdout, done.stderr, done.exit_code) == ("", "No container", 1)
    assert env.checkpoints() == []
    with pytest.raises(NothingToUndo):
        env.undo()
    with pytest.raises(NothingToRedo):
        env.redo()
    env.add_record({"id": "x"})
    assert env.records() == [{"id": "x"}]
    env.clear_records()
    assert env.records() == []
    twin = env.clone()
    twin.write_file("only", "twin")
    assert env.list_files() == []
    env.cleanup()
    env.cleanup()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "nul\0"])
def test_paths_that_leave_the_working_directory_are_refused_in_memory_too(path):
    env = DockerEnvironment()
    for ask in (lambda: env.read_file(path), lambda: env.write_file(path, "")):
        with pytest.raises(PermissionError, match="Path escapes workdir"):
            ask()


# -- no engine ----------------------------------------------------------------------------------


def test_no_engine_is_one_sentence_that_says_what_is_safe_and_what_to_type(tmp_path):
    env = DockerEnvironment(socket=str(tmp_path / "none.sock"))
    env.write_file("kept", "in memory")
    with pytest.raises(EngineUnreachable) as caught:
        env.setup()
    assert f"unix://{tmp_path}/none.sock" in str(caught.value)
    assert "Nothing was changed" in str(caught.value)
    assert "systemctl start docker" in caught.value.hint and "podman system service" in caught.value.hint
    assert env.read_file("kept") == "in memory"
    env.cleanup()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the docker package leaves the socket open
def test_a_file_that_is_no_socket_is_an_engine_that_does_not_answer(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineUnreachable, match="Connection refused") as caught:
        DockerEnvironment(socket=str(tmp_path / "file")).setup()
    del caught
    gc.collect()


def test_nothing_is_written_on_this_machine_when_no_engine_answers(tmp_path, private_home, project):
    before = sorted(private_home.rglob("*"))
    with pytest.raises(EngineUnreachable):
        DockerEnvironment(socket=str(tmp_path / "none"), mounts={project: "/mnt"}, name="x").setup()
    assert sorted(private_home.rglob("*")) == before


def test_where_engines_are_looked_for(monkeypatch):
    assert variables.container_engines({"DOCKER_HOST": "tcp://elsewhere:2375"}) == ("tcp://elsewhere:2375",)
    assert variables.container_engines({}) == ("unix:///var/run/docker.sock", "unix:///run/podman/podman.sock")
    assert variables.container_engines({"XDG_RUNTIME_DIR": "/run/user/7"})[1:3] == (
        "unix:///run/user/7/docker.sock",
        "unix:///run/user/7/podman/podman.sock",
    )
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/engine.sock")
    with pytest.raises(EngineUnreachable, match=r"/nowhere/engine\.sock"):
        DockerEnvironment().setup()


def test_directories_are_not_mounted_on_another_machine(project):
    """An engine elsewhere would mount its own directory of that name, and a restore would touch the wrong one."""
    far = SimpleNamespace(base_url="http://elsewhere:2375", timeout=0)
    with pytest.raises(EngineRefused, match="runs elsewhere"):
        DockerEnvironment(client=far, mounts={project: "/mnt"}).setup()


# -- what is asked for --------------------------------------------------------------------------


def request(**more):
    given = dict.fromkeys(("mounts", "environment", "command", "ports", "labels", "sandbox", "options"))
    return make_request(**{"name": "x", "workdir": "/w", "user": "", **given, **more})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "no spaces"}, "cannot name a container"),
        ({"name": "-x"}, "cannot name a container"),
        ({"name": "x" * 64}, "cannot name a container"),
        ({"name": "../up"}, "cannot name a container"),
        ({"workdir": "relative"}, "workdir"),
        ({"retain": 0}, "retain"),
        ({"options": {"odd": object()}}, "JSON"),
        ({"options": {"auto_remove": True}}, "auto_remove"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(wrong, said):
    with pytest.raises(ValueError, match=said):
        DockerEnvironment(**wrong)


def test_only_whole_directories_that_do_not_overlap_are_mounted(tmp_path, project):
    (project / "inner").mkdir()
    (project / "file").write_text("")
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "a:b").mkdir()
    for mounts, said in (
        ({project / "file": "/f"}, "not a directory"),
        ({tmp_path / "none": "/f"}, "not a directory"),
        ({project: "relative"}, "from its root"),
        ({project: "/a", project / "inner": "/b"}, "holds another"),
        ({project: "/a", tmp_path / "link": "/b"}, "twice"),
        ({tmp_path / "a:b": "/a"}, "colon"),
    ):
        with pytest.raises(ValueError, match=said):
            DockerEnvironment(mounts=mounts)


def test_two_names_for_the_socket_are_not_given_two_values():
    with pytest.raises(TypeError, match="base_url and socket"):
        DockerEnvironment(base_url="unix:///a", socket="/b")


def test_a_command_replaces_the_one_that_only_waits():
    assert request()["entrypoint"] == ["/bin/sh"]
    assert request(command=["serve"]) == {**request(), "command": ["serve"], "entrypoint": None}
    assert request(ports={80: 8080, "53/udp": None})["ports"] == {"80/tcp": 8080, "53/udp": None}


def test_a_sandbox_policy_becomes_limits_of_the_container():
    rule = SimpleNamespace
    policy = SimpleNamespace(
        network_rules=[rule(allow=False)], max_memory_mb=64, max_processes=9, timeout_seconds=5, path_rules=[]
    )
    assert request(sandbox=policy)["options"] == {
        "network_mode": "none",
        "mem_limit": "64m",
        "pids_limit": 9,
        "read_only": True,
        "tmpfs": {"/tmp": "size=100m"},
    }
    open_one = SimpleNamespace(network_rules=[rule(allow=True)], path_rules=[rule(access=rule(value="write"))])
    assert request(sandbox=open_one, options={"mem_limit": "1g"})["options"] == {"mem_limit": "1g"}


def test_a_container_of_other_settings_is_refused_by_what_differs(tmp_path: Path):
    found = request(environment={"A": "1"})
    refuse_other_request("x", found, request(), {"environment": None, "mounts": None})
    with pytest.raises(UserError, match="other environment"):
        refuse_other_request("x", found, request(environment={"A": "2"}), {"environment": {"A": "2"}})
