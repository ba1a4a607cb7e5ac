"""`./run drill image`: the image of deploy/Containerfile, built and started without a container engine.

buildah builds it with chroot isolation, over a base that debootstrap makes. Its root file system is then started as
deploy/compose.yaml says: entry point, user, environment, read-only root, tmpfs, volumes and secrets come from these two
files; a mount namespace, chroot and setpriv stand for the engine. PostgreSQL is that of this machine. A first campaign
goes over HTTP, the service is stopped and started again, the database is upgraded by an image with one more revision,
and a backup is restored beside it. Not tried: an engine's network, its restarts, its log, and PostgreSQL's own image.
"""

import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from trial_server import trial_server

import disco

ROOT = Path(__file__).parents[2]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "src")  # of the clone, that the wheel is built from
SUITE = "bookworm"  # of Debian, as in the Containerfile
IMAGE, NEWER = "localhost/disco-codes", "localhost/disco-codes-newer"
_PACKAGE = "/opt/disco/lib/python3.11/site-packages/disco"
_REVISION = "0013"
_MIGRATION = f'''
from alembic import op
revision, down_revision = "{_REVISION}", "0012"
def upgrade(): op.execute("COMMENT ON TABLE campaigns IS 'seen by the newer image'")
'''
# what an engine does between its call and the program: mounts of its own, then a root without privileges
_START = """
set -eu
mount --make-rprivate / && mount --bind "$ROOT" "$ROOT"
mount -t tmpfs tmpfs "$ROOT/tmp"
for place in proc dev; do mount --rbind /$place "$ROOT/$place"; done
for pair in $MOUNTS; do mount --bind "${pair%%:*}" "$ROOT${pair#*:}"; done
mount -o remount,ro,bind "$ROOT"
exec chroot "$ROOT" setpriv --reuid="$UID_" --regid="$UID_" --clear-groups --inh-caps=-all --bounding-set=-all \\
    --no-new-privs -- env -i --chdir="$WORKDIR" $ENVIRONMENT "$@"
"""


def main() -> int:
    for program in ("buildah", "debootstrap", "unshare", "setpriv"):
        if shutil.which(program) is None or os.geteuid():
            raise SystemExit(f"image: found no {program} or no root; expected both (apt-get install {program})")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="disco-image-")))
        os.environ["PGPORT"] = str(free_port())
        server = stack.enter_context(trial_server("listen_addresses=127.0.0.1", f"port={os.environ['PGPORT']}"))
        builder = Builder(folder)
        timed("base", builder.base)
        timed("image", builder.image)
        timed("newer image", builder.newer)
        first = Machine(folder / "first", builder, server, IMAGE)
        stack.callback(first.stop)
        first.up()
        timed("first campaign", lambda: first_campaign(first))
        before = first.facts()
        first.stop()
        first.up()
        same("after a restart", first.facts(), before)
        first.run("disco", "backup", "-o", "/shop/backup.tar.gz")
        restored(folder / "second", builder, server, first, before)
        first.stop()
        upgraded(first, server, before)
    return 0


class Builder:
    """Images in a store of the drill's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def buildah(self, *arguments: str) -> str:
        store = ("--root", f"{self.folder}/images", "--runroot", f"{self.folder}/run", "--storage-driver", "vfs")
        return call("buildah", *store, *arguments)

    def base(self) -> None:
        """What `docker.io/library/debian:bookworm-slim` is, made from Debian's packages; DISCO_DRILL_BASE names one."""
        made = Path(os.environ.get("DISCO_DRILL_BASE", self.folder / "base"))
        if not made.exists():
            call("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(made))
        container = self.buildah("from", "scratch").strip()
        self.buildah("add", "--quiet", container, f"{made}/", "/")
        self.buildah("commit", "--quiet", "--rm", container, "localhost/base")

    def image(self) -> None:
        """As docs/deploy.md says, with the packages brought by pip: a build in a chroot need not reach the index."""
        clone = self.folder / "clone"
        for name in PARTS:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            clone.mkdir(exist_ok=True)
            copy(source, clone / name)
        place = self.folder / "context"
        (place / "dist").mkdir(parents=True)
        shutil.copy2(ROOT / "constraints.txt", place)
        pip = (sys.executable, "-m", "pip", "--quiet")
        call(*pip, "wheel", "--no-deps", "--wheel-dir", f"{place}/dist", str(clone))
        call(
            *pip, "download", "--dest", f"{place}/dist", "--find-links", f"{place}/dist",
            "--constraint", f"{place}/constraints.txt", "disco-codes[delta]",
        )  # fmt: skip
        self.buildah(
            "bud", "--isolation", "chroot", "--build-arg", "BASE=localhost/base", "--build-arg", "PIP_NO_INDEX=1",
            "--file", f"{ROOT}/deploy/Containerfile", "--tag", IMAGE, str(place),
        )  # fmt: skip
        size = sum(one.lstat().st_size for one in self.root(IMAGE).rglob("*"))
        print(f"          {size / 1e9:.2f} GB", flush=True)

    def newer(self) -> None:
        """The image of a later release: one more revision of the database."""
        container = self.buildah("from", IMAGE).strip()
        root = Path(self.buildah("mount", container).strip())
        package = Path(f"{root}{_PACKAGE}")
        (package / "store/migrations/versions/r0013_drill.py").write_text(_MIGRATION)
        replace(package / "store/schema.py", "REVISION = BASELINE", f'REVISION = "{_REVISION}"')
        replace(package / "store/store.py", "(schema.BASELINE,)", f'(schema.BASELINE, "{_REVISION}")')
        self.buildah("commit", "--quiet", "--rm", container, NEWER)

    def root(self, image: str) -> Path:
        """The root file system of a container of this image."""
        return Path(self.buildah("mount", self.buildah("from", image).strip()).strip())

    def settings(self, image: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
        return found


class Machine:
    """One machine with the volumes of compose.yaml."""

    def __init__(self, folder: Path, builder: Builder, server: Any, image: str) -> None:
        self.compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
        self.builder, self.port, self.processes = builder, free_port(), dict[str, subprocess.Popen[str]]()
        self.volume, self.cache, self.secrets = (folder / name for name in ("shop", "cache", "secrets"))
        self.database = f"shop_{folder.name}"
        server.execute(f"CREATE DATABASE {self.database}")
        url = f"postgresql://postgres:{secrets.token_hex(8)}@127.0.0.1:{os.environ['PGPORT']}/{self.database}"
        self.load(image)
        for place in (self.volume, self.cache, self.secrets):
            place.mkdir(parents=True, mode=0o700)
        (self.secrets / "database_url").write_text(url)
        (self.secrets / "code_secret").write_text(secrets.token_hex(32))
        for place in (self.volume, self.cache, self.secrets, *self.secrets.iterdir()):
            os.chown(place, int(self.user), int(self.user))
        self.key = ""

    def load(self, image: str) -> None:
        """Take the root file system and the settings of an image."""
        self.root, self.settings = self.builder.root(image), self.builder.settings(image)
        self.user = self.settings["User"].partition(":")[0]
        (self.root / "run/secrets").mkdir(parents=True, exist_ok=True)

    def popen(self, command: Sequence[str], *, keeps: bool) -> subprocess.Popen[str]:
        """keeps: whether the output is wanted; a service writes its log to a file."""
        service = self.compose["serve"]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        environment = [*self.settings["Env"], *(f"{key}={value}" for key, value in service["environment"].items())]
        places = {"shop": self.volume, "cache": self.cache}
        mounts = [f"{places[name]}:{place}" for name, _, place in (one.partition(":") for one in service["volumes"])]
        more = {
            "ROOT": str(self.root),
            "UID_": self.user,
            "WORKDIR": self.settings["WorkingDir"],
            "MOUNTS": " ".join([*mounts, f"{self.secrets}:/run/secrets"]),
            "ENVIRONMENT": " ".join(environment),
        }
        log = None if keeps else (self.volume.parent / "log").open("a")
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _START, "sh", *command],
            env={"PATH": os.environ["PATH"], **more}, text=True,
            stdout=subprocess.PIPE if keeps else log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *command: str) -> str:
        """A command to its end."""
        done = self.popen(command, keeps=True)
        output = done.communicate(timeout=900)[0]
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}:\n{output}")
        return output

    def command(self, name: str) -> list[str]:
        """Of a service: its entry point and arguments, on the drill's port."""
        service = self.compose[name]
        words = [*service.get("entrypoint", self.settings["Entrypoint"]), *service["command"]]
        return [word.replace("8080", str(self.port)) for word in words]

    def up(self) -> None:
        """Migrate, then serve and work, until both are healthy."""
        self.run(*self.command("migrate"))
        if not self.key:
            made = self.run("disco", "keys", "create", "--role", "admin", "--name", "drill", "--json")
            self.key = json.loads(made)["key"]
        for name in ("serve", "worker"):
            self.processes[name] = self.popen(self.command(name), keeps=False)
        for name in ("serve", "worker"):
            _, *test = self.compose[name]["healthcheck"]["test"]
            self.wait_until([word.replace("8080", str(self.port)) for word in test])
        print(f"          healthy: {', '.join(self.processes)}", flush=True)

    def wait_until(self, test: list[str]) -> None:
        for _ in range(60):
            if any(process.poll() is not None for process in self.processes.values()):
                break
            check = self.popen(test, keeps=True)
            check.communicate(timeout=60)
            if check.returncode == 0:
                return
            time.sleep(1)
        raise SystemExit(f"not healthy: {shlex.join(test)}\n{(self.volume.parent / 'log').read_text()[-3000:]}")

    def stop(self) -> None:
        """SIGTERM, and the time that compose.yaml gives."""
        for name, process in self.processes.items():
            grace = int(self.compose[name]["stop_grace_period"].removesuffix("s"))
            process.terminate()
            code = process.wait(grace)
            if code not in (0, -15):
                raise SystemExit(f"{name} ended with {code}")
        self.processes.clear()

    @property
    def client(self) -> disco.Client:
        return disco.Client(f"http://127.0.0.1:{self.port}", key=self.key, timeout=300)

    def facts(self) -> tuple[str, ...]:
        """What must be the same wherever the shop runs."""
        client = self.client
        results = client.results("autumn-25", as_of=date(2025, 11, 1))
        return client.campaigns().to_json(), client.belief().to_json(), results.to_json()


def first_campaign(machine: Machine) -> None:
    """That of the README; what people do on the shop's machine is a command, the rest goes over HTTP."""
    machine.run("disco", "simulate", "--customers", "3000", "--seed", "7", "-o", "data")
    client = machine.client
    client.train(window_start=date(2025, 6, 1), max_epochs=2)
    plan = yaml.safe_load((machine.volume / "plan.yaml").read_text())
    planned = client.plan(plan)
    client.launch(planned.plan_id)
    codes = client.export("autumn-25", machine.volume / "codes.parquet")
    os.chown(machine.volume / "codes.parquet", int(machine.user), int(machine.user))
    machine.run("disco", "respond", "data", "codes.parquet", "-o", "outcomes.parquet")
    received = client.ingest("autumn-25", machine.volume / "outcomes.parquet")
    learned = client.learn("autumn-25", as_of=date(2025, 11, 1))
    print(f"          {codes.num_rows:,} codes, {received.applied:,} purchases, version {learned.version}", flush=True)
    assert codes.num_rows
    assert received.applied
    attempt = machine.popen(["touch", "/opt/disco/there"], keeps=True)
    words = attempt.communicate(timeout=60)[0]
    assert "Read-only file system" in words, words


def restored(folder: Path, builder: Builder, server: Any, first: Machine, before: tuple[str, ...]) -> None:
    """The backup in an empty shop and database; the tables, which no backup holds, are brought beside it."""
    second = Machine(folder, builder, server, IMAGE)
    for name in ("backup.tar.gz", "data"):
        call("cp", "--archive", f"{first.volume}/{name}", str(second.volume))
    second.run("disco", "restore", "/shop/backup.tar.gz", "--shop", "/shop")
    second.up()
    try:
        same("after a restore", second.facts(), before)
    finally:
        second.stop()


def upgraded(machine: Machine, server: Any, before: tuple[str, ...]) -> None:
    """The image of a later release: its commands refuse the older database until it is migrated."""
    machine.load(NEWER)
    old = machine.popen(["disco", "campaigns"], keeps=True)
    words = old.communicate(timeout=120)[0]
    assert old.returncode == 1, words
    assert "disco db upgrade" in words, words
    machine.up()
    same("after an upgrade", machine.facts(), before)
    with server.session(database=machine.database) as session:
        comment = session.execute("SELECT obj_description('campaigns'::regclass)").fetchone()[0]
    assert comment == "seen by the newer image", comment
    machine.stop()
    machine.load(IMAGE)
    late = machine.popen(["disco", "campaigns"], keeps=True)
    words = late.communicate(timeout=120)[0]
    assert late.returncode == 1, words
    assert "made by a newer disco" in words, words
    print("          the older image refuses the newer database", flush=True)


def same(when: str, found: tuple[str, ...], before: tuple[str, ...]) -> None:
    if found != before:
        raise SystemExit(f"{when} the shop says something else:\n{found}\n{before}")
    print(f"          {when}: the same campaigns, model and results", flush=True)


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, (file, old)
    file.write_text(text.replace(old, new))


def call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done.stdout


def timed(name: str, work: Any) -> None:
    started = time.monotonic()
    work()
    print(f"{time.monotonic() - started:6.1f} s  {name}", flush=True)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
