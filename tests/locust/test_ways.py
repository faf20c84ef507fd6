"""Every way in which people write locustfiles, in one real run: exact, marked and matched."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from trilat.agent.layout import SERVED, Kind, MarkFlag
from trilat.agent.records import Component
from trilat.agent.segment import journal_files, read_segment
from trilat.correlator.attribution.attribute import Attributed
from trilat.correlator.records.frames import Names, split_records

from ..servers import free_port, started
from .conftest import attribute_rows, exchanges_of
from .ways import peers, service, ways

ROUNDS = 4
EARLY = 0.9  # of a time: timers may be early, and the stamp counts from the call
HERE = Path(__file__).parent / "ways"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/ways.md"
NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{service}; proxy_http_version 1.1; proxy_set_header Connection "";
    }}
  }}
}}
"""


APP, BODY, UPLOAD = (
    1000 * EARLY * seconds for seconds in (service.APP_S, service.BODY_S, service.READS_AFTER_S)
)
CONNECT = 1000 * EARLY * peers.CONNECT_S
TIMEOUT, STALL = 1000 * EARLY * 0.2, 1000 * EARLY * 1.5
ROWS = [(way, client) for way in ways.WAYS for client in way.clients]
NAMES = [way.classes + client for way, client in ROWS]


@dataclass(frozen=True)
class Gone:
    """What a run of all ways left behind.

    Attributes:
        code: Locust's exit code.
        output: what it wrote.
        directory: of the run.
        served: where the service kept its journal.
        seen: what the event said, by name: method, response time in milliseconds, exception.
    """

    code: int
    output: str
    directory: Path
    served: Path
    seen: dict[str, list[tuple[str, float, str | None]]]

    @cached_property
    def exchanges(self) -> Any:
        """All rows of the generator's journal."""
        return exchanges_of(self.directory)

    @cached_property
    def requests(self) -> Any:
        """Those of them that are a request each."""
        return self.exchanges[self.exchanges["kind"] == Kind.EXCHANGE]

    @cached_property
    def attributed(self) -> Attributed:
        """The same requests, attributed."""
        return attribute_rows(self.exchanges)

    @cached_property
    def names(self) -> dict[int, str]:
        """What the numbers of names stand for."""
        names = Names()
        for file in journal_files(self.directory / "journals"):
            names.learn(split_records(read_segment(file).records)[1])
        numbers = np.unique(self.requests["name_id"]).tolist()
        return {number: names.label(number)[1] for number in numbers}

    @cached_property
    def served_spans(self) -> set[int]:
        """The spans in the service's journal."""
        files = journal_files(self.served)
        return {
            span
            for file in files
            for span in split_records(read_segment(file).records, SERVED)[0]["span"].tolist()
        }

    def numbers(self, name: str) -> list[int]:
        """The numbers that stand for a name, of either client where it says none."""
        names = (name, f"{name}Http", f"{name}Fast")
        return [number for number, each in self.names.items() if each in names]

    def of(self, name: str) -> Any:
        """Which requests have a name: their places."""
        return np.flatnonzero(np.isin(self.requests["name_id"], self.numbers(name)))

    def least_ms(self, name: str, *components: Component) -> float:
        """The least that any request of a name has of some components."""
        parts = self.attributed.components_ns[self.of(name)][:, list(components)]
        return float(parts.sum(axis=1).min()) / 1e6

    def matched(self, name: str) -> str:
        """Whether requests of a name are matched: ``all``, ``none`` or ``some``."""
        matched = self.attributed.matched[self.of(name)]
        return "all" if matched.all() else "some" if matched.any() else "none"


def _environment() -> dict[str, str]:
    """As ours, without proxies; what stands beside these tests can be imported."""
    ours = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return {**ours, "PYTHONPATH": os.pathsep.join((str(ROOT), ours.get("PYTHONPATH", "")))}


@contextmanager
def _servers(folder: Path) -> Iterator[dict[str, Any]]:
    """Start everything that the ways need."""
    authority = trustme.CA()
    files = {name: str(folder / f"{name}.pem") for name in ("authority", "certificate", "key")}
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(files["authority"])
    certificate.private_key_pem.write_to_path(files["key"])
    for part in certificate.cert_chain_pems:
        part.write_to_path(files["certificate"], append=True)
    command = [sys.executable, "-m", "tests.locust.ways.servers", str(folder / "served")]
    command += [files["key"], files["certificate"], files["authority"]]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "servers.log").open("wb"))
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=_environment()
        )
        stack.callback(_stop, child)
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, (folder / "servers.log").read_text()
        places = {**json.loads(line), **files}
        if shutil.which("nginx"):
            places["nginx"] = _start_nginx(folder, places["plain"], stack)
        yield places


def _start_nginx(folder: Path, service_port: int, stack: ExitStack) -> int:
    port, config = free_port(), folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, service=service_port))
    command = ["nginx", "-p", str(folder), "-c", str(config)]
    stack.enter_context(started(command, folder / "nginx.log")).when_listens(port)
    return port


def _stop(child: subprocess.Popen[Any]) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()


@pytest.fixture(scope="module")
def gone(tmp_path_factory: pytest.TempPathFactory) -> Gone:
    """All ways, each gone a few times by a user of its own, in one Locust process."""
    folder = tmp_path_factory.mktemp("ways")
    with _servers(folder) as places:
        environment = {
            **_environment(),
            "PLACES": json.dumps(places),
            "SEEN": str(folder / "seen"),
            "PYTHONWARNINGS": "ignore",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "locust", "-f", str(HERE / "locustfile.py"), "--headless"]
        command += ["-u", "200", "-r", "200", "-t", "120s", "--trilat-out", str(folder / "run")]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
            check=False,
            env=environment,
        )
    assert (folder / "seen").exists(), done.stdout
    seen: dict[str, list[tuple[str, float, str | None]]] = {}
    for line in (folder / "seen").read_text().splitlines():
        method, name, response_time, exception = json.loads(line)
        seen.setdefault(name, []).append((method, response_time, exception))
    return Gone(done.returncode, done.stdout, folder / "run", folder / "served", seen)


def _ns(response_time_ms: float) -> int:
    return round(response_time_ms * 1e6)


def test_nothing_of_our_own_failed(gone: Gone) -> None:
    """No task raised, no error inside was counted, and nothing is missing from the journal."""
    assert "Traceback" not in gone.output, gone.output
    result = json.loads((gone.directory / "result.json").read_text())
    lost = result["run"]["lost"]
    assert lost["errors_inside"] == lost["journal_dropped"] == lost["without_time"] == 0
    assert result["total"]["requests"] == len(gone.requests) == sum(map(len, gone.seen.values()))


@pytest.mark.parametrize(("way", "client"), ROWS, ids=NAMES)
def test_each_way(gone: Gone, way: Any, client: str) -> None:
    """R is Locust's own, the parts add up to it, exchanges and matches are as they should be."""
    name = way.classes + client
    if name not in gone.seen and way.classes in {"Gateway", "Six"}:
        pytest.skip("there is no nginx, or no IPv6, here")
    at, cut = gone.of(name), gone.attributed
    theirs = sorted(_ns(time) for _, time, _ in gone.seen[name])
    assert sorted(cut.response_ns[at].tolist()) == theirs
    parts = cut.components_ns[at]
    assert (parts >= 0).all()
    assert (cut.unattributed_ns[at] >= 0).all()
    total = parts.sum(axis=1) + cut.unattributed_ns[at]
    np.testing.assert_array_equal(total, cut.response_ns[at])
    assert set(gone.requests["exchanges"][at].tolist()) == set(way.exchanges)
    assert way.matched in {gone.matched(name), "some"}
    if way.unattributed:
        assert (cut.unattributed_ns[at] > 0).all()
    elif way.matched == "all":
        assert not cut.unattributed_ns[at].any()


def test_the_page_says_what_was_seen(gone: Gone) -> None:
    """``docs/ways.md`` has a row for each way and client, with the counts of this run."""
    rows = re.findall(r"^\| (.+) \| (\w+) \| (\d+) \| (\d+) \| (\w+) \|$", PAGE.read_text(), re.M)
    clients = {"Http": "HttpUser", "Fast": "FastHttpUser", "": "User"}
    expected = []
    for way, client in ROWS:
        name = way.classes + client
        requests, exchanges, matched = ROUNDS, way.exchanges[0], way.matched
        if name in gone.seen:
            requests = len(gone.seen[name])
            (exchanges,) = set(gone.requests["exchanges"][gone.of(name)].tolist())
            matched = "some" if way.matched == "some" else gone.matched(name)
        expected.append((way.what, clients[client], str(requests), str(exchanges), matched))
    assert rows == expected


def test_the_service_has_every_exchange_on_record(gone: Gone) -> None:
    """Each hop and each try that was sent to it has a span of its own, and the service saw it."""
    elsewhere = ("Interim", "Trickled", "SeveralStamps", "Hostile", "UntilClosed", "RedirectedAway")
    unfinished = ("TimedOut", "RetriedTimeout")  # the service still works on them
    rows = gone.exchanges
    sent = (rows["flags"] & MarkFlag.SENT) != 0
    others = [
        number for number, name in gone.names.items() if name.startswith(elsewhere + unfinished)
    ]
    spans = rows["span"][sent & ~np.isin(rows["name_id"], others)].tolist()
    assert 0 not in spans
    assert len(set(spans)) == len(spans)
    assert set(spans) <= gone.served_spans
    earlier = rows["kind"] == Kind.EARLIER
    hops = rows["span"][earlier & np.isin(rows["name_id"], gone.numbers("Redirected"))]
    assert len(hops) == 2 * 2 * ROUNDS


ATTRIBUTED: dict[str, tuple[float, tuple[Component, ...]]] = {
    # Each hop's time in the application, though only the last one's answer is Locust's.
    "Redirected": (3 * APP, (Component.SERVICE_APP,)),
    "RedirectedPost": (2 * APP, (Component.SERVICE_APP,)),
    "RedirectedAway": (APP, (Component.SERVICE_APP,)),
    "RedirectedNowhere": (APP, (Component.SERVICE_APP,)),
    "Retried": (2 * APP, (Component.SERVICE_APP,)),
    "SilentlyRetried": (APP, (Component.SERVICE_APP,)),
    # Blocked in send, as the service does not read yet: not the generator's.
    "Upload": (UPLOAD, (Component.SERVICE_APP,)),
    "UploadFile": (UPLOAD, (Component.SERVICE_APP,)),
    "UploadChunks": (UPLOAD, (Component.SERVICE_APP,)),
    "UploadTls": (UPLOAD, (Component.SERVICE_APP,)),
    # How much of this is the body depends on when the generator came for its first piece.
    "Chunked": (BODY, (Component.SERVICE_BODY, Component.NETWORK_BACK)),
}
"""At least so many ms of each request belong to components, however busy the machine is."""


@pytest.mark.parametrize("classes", ATTRIBUTED)
def test_time_goes_to_whom_it_belongs(gone: Gone, classes: str) -> None:
    """What a way makes the service or the network take is found there."""
    least_ms, components = ATTRIBUTED[classes]
    (way,) = (way for way in ways.WAYS if way.classes == classes)
    for client in way.clients:
        assert gone.least_ms(classes + client, *components) >= least_ms


@pytest.mark.parametrize("client", ["Http", "Fast"])
def test_making_a_connection_is_the_networks(gone: Gone, client: str) -> None:
    """Opening a tunnel and the handshake, and an address that refuses before one that does not."""
    rows = gone.requests
    connected = (rows["flags"] & MarkFlag.CONNECTED) != 0
    tunnelled = rows["connect_ns"][gone.of(f"Tunnelled{client}")]
    assert tunnelled.max() >= CONNECT * 1e6
    at = gone.of(f"Localhost{client}")
    assert connected[at].any()
    assert (rows["connect_ns"][at][connected[at]] > 0).all()


@pytest.mark.parametrize("client", ["Http", "Fast"])
def test_waiting_in_vain_is_nobodys(gone: Gone, client: str) -> None:
    """A timeout within the body: matched, and what was waited for is unattributed."""
    at = gone.of(f"Stalled{client}")
    assert (gone.requests["flags"][at] & MarkFlag.BROKEN).all()
    assert gone.attributed.unattributed_ns[at].min() >= STALL * 1e6
    at = gone.of(f"TimedOut{client}")
    assert gone.attributed.unattributed_ns[at].min() >= TIMEOUT * 1e6


def test_events_of_ones_own_are_recorded_without_marks(gone: Gone) -> None:
    """Those of a client of one's own, and those fired again with a response of Locust's clients."""
    unmarked = (gone.requests["flags"] & MarkFlag.UNMARKED) != 0
    own = {name for name in gone.seen if name.endswith(" (own)")} | {"OwnClient"}
    assert len(own) == 5
    assert set(np.flatnonzero(unmarked)) == {at for name in own for at in gone.of(name)}
    at = gone.of("RefiredHttp (own)")
    assert gone.attributed.response_ns[at].tolist() == [1_500_000] * ROUNDS


def test_hostile_answers_are_no_evidence(gone: Gone) -> None:
    """Whatever a server answers, it is counted as unmatched, or as foreign, and nothing fails."""
    lost = json.loads((gone.directory / "result.json").read_text())["run"]["lost"]
    assert lost["foreign_stamps"] >= 2 * ROUNDS
    for client in ("Http", "Fast"):
        assert len(gone.of(f"Hostile{client}")) == ROUNDS * (len(peers.HOSTILE) + 1)
