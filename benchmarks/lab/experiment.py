"""One scenario, made: everything is started, loaded, captured, ended and read."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import trustme

from .capture import Capture, capturing, read_segments
from .exchanges import arrivals, clear_exchanges, tls_exchanges
from .gauge import watching
from .link import DEVICE, SERVICE_ADDRESS, Link, open_link
from .logs import CALLS, REQUESTS, read_log
from .measured import measure
from .processes import LabError, Started, started
from .proxy import proxied
from .quota import limited
from .rules import answer
from .scenario import Scenario, options_text
from .score import score
from .streams import connections_in
from .table import Table
from .truth import calls_by_port, tell

__all__ = ["ROOT", "Experiment"]

ROOT = Path(__file__).parents[2]
_OTHER_HOST = 77  # any identity that is not this machine's
_PROBES, _PROBE_PAUSE_S = 25, 0.02
_ENDS_WITHIN_S = 45.0  # beyond the load: Locust's start, its end, and a busy machine
_SETTLES_S = 0.3
_CAPTURED_S = 1.3  # tcpdump gets packets from the kernel once a second


@dataclass(frozen=True, slots=True)
class Experiment:
    """One scenario on this machine.

    Attributes:
        scenario: what is to be made.
        folder: for all files of it.
        captures: whether packets may be captured here.
    """

    scenario: Scenario
    folder: Path
    captures: bool

    def make(self) -> dict[str, Any]:
        """Make it, and say how far trilat was from the truth.

        Raises:
            LabError: it could not be made; one line that says why.
            TrilatError: trilat's journals could not be read.
        """
        scenario = self.scenario
        (self.folder / "logs").mkdir(parents=True)
        began = time.monotonic()
        with ExitStack() as stack:
            link = None
            if scenario.link.kind == "link":
                link = stack.enter_context(open_link(scenario.link, self.folder))
            ports = free_ports(3)
            url = self._serve(stack, link, ports)
            env = self._generator_env()
            low = self._probe(url, link)
            captures = self._capture(stack, link, ports) if self.captures else []
            load = self._load(stack, link, url, env)
            time.sleep(_CAPTURED_S)
            for capture in captures:
                capture.end()
        truth = self._truth(captures, link is not None, ports)
        scored = score(truth, measure(self.folder / "run"))
        p95_ms = float(np.quantile(truth.response_ns, 0.95)) / 1e6
        answers = answer(scored, load["cpu_percent"], load.pop("log"), low, p95_ms)
        report = self.folder / "link.json"
        return {
            "name": scenario.name,
            "expects": scenario.expects,
            "what": scenario.what,
            "off": scenario.off,
            "took_s": round(time.monotonic() - began, 1),
            **load,
            "captures_dropped": sum(capture.dropped for capture in captures),
            "link": json.loads(report.read_text()) if report.exists() else None,
            "score": asdict(scored),
            "rules": {**asdict(answers), "right": answers.right},
        }

    def _serve(self, stack: ExitStack, link: Link | None, ports: list[int]) -> str:
        """Start the service, and what stands before it; its URL."""
        options = self.scenario.service
        address = SERVICE_ADDRESS if link else "127.0.0.1"
        namespace = link.service if link else None
        behind = "127.0.0.1" if options.proxy != "none" else address
        command: list[str | Path] = [
            *(sys.executable, "-m", "uvicorn", "benchmarks.lab.service:app"),
            *("--host", behind, "--port", str(ports[0]), "--loop", options.loop),
            *("--http", options.http, "--workers", str(options.workers)),
            *("--backlog", str(options.backlog), "--no-access-log", "--log-level", "info"),
            *("--timeout-keep-alive", "60", "--timeout-graceful-shutdown", "1"),
        ]
        if options.tls:
            command += ["--ssl-keyfile", self._authority() / "key.pem"]
            command += ["--ssl-certfile", self.folder / "certificate.pem"]
        env = self._env() | {
            "LAB_SERVICE": options_text(options),
            "LAB_HOST": str(_OTHER_HOST if link else 0),
        }
        group = stack.enter_context(limited(options.cpu_quota, "service"))
        service = stack.enter_context(
            started(command, self.folder / "service.log", env=env, namespace=namespace)
        )
        service.when_says("Application startup complete")
        _into(group, service)
        port = ports[0]
        if options.proxy != "none":
            port = ports[1]
            upstream = f"{behind}:{ports[0]}"
            stack.enter_context(
                proxied(options, self.folder, f"{address}:{port}", upstream, namespace)
            )
            time.sleep(_SETTLES_S)
        return f"{'https' if options.tls else 'http'}://{address}:{port}"

    def _authority(self) -> Path:
        """A certificate authority, and a certificate of its for the service."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.folder / "authority.pem")
        certificate = authority.issue_cert("127.0.0.1", SERVICE_ADDRESS)
        certificate.private_key_pem.write_to_path(self.folder / "key.pem")
        for part in certificate.cert_chain_pems:
            part.write_to_path(self.folder / "certificate.pem", append=True)
        return self.folder

    def _env(self) -> dict[str, str]:
        roots = (ROOT, ROOT / "agent", ROOT / "middleware", ROOT / "correlator")
        return {
            "PYTHONPATH": os.pathsep.join(map(str, roots)),
            "LAB_LOGS": str(self.folder / "logs"),
            # What trilat's workers share would lie in a folder of the machine's.
            "TMPDIR": str(self.folder),
            "TRILAT_STATE": str(self.folder / "state"),
        }

    def _generator_env(self) -> dict[str, str]:
        scenario = self.scenario
        redirects = scenario.service.redirects
        env = self._env() | {
            "LAB_GENERATOR": options_text(scenario.generator),
            "LAB_PACE": str(scenario.pace),
            "LAB_PATH": f"/redirect/{redirects}" if redirects else "/",
        }
        if scenario.service.tls:
            env["LAB_CA"] = str(self.folder / "authority.pem")
        return env

    def _probe(self, url: str, link: Link | None) -> list[float]:
        """Response times at a low rate."""
        command = [sys.executable, "-m", "benchmarks.lab.baseline", f"{url}/"]
        command += [str(_PROBES), str(_PROBE_PAUSE_S)]
        log = self.folder / "baseline.log"
        namespace = link.generator if link else None
        with started(command, log, env=self._env(), namespace=namespace) as probe:
            try:
                probe.process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired as error:
                raise LabError("the service does not answer") from error
        try:
            found: list[float] = json.loads(probe.said)
        except ValueError as error:
            raise LabError(f"the service does not answer: {probe.said[-200:]}") from error
        return found

    def _capture(self, stack: ExitStack, link: Link | None, ports: list[int]) -> list[Capture]:
        """Begin to capture: on the loopback, or in both namespaces."""
        wanted = tuple(ports[:2])
        if link is None:
            return [stack.enter_context(capturing(self.folder / "lo.pcap", "lo", wanted))]
        places = {"generator": (link.generator, DEVICE), "service": (link.service, "any")}
        return [
            stack.enter_context(capturing(self.folder / f"{name}.pcap", device, wanted, namespace))
            for name, (namespace, device) in places.items()
        ]

    def _load(
        self, stack: ExitStack, link: Link | None, url: str, env: dict[str, str]
    ) -> dict[str, Any]:
        """Run Locust to its end, and watch its processor."""
        scenario = self.scenario
        command: list[str | Path] = [
            *(sys.executable, "-m", "locust", "-f", ROOT / "benchmarks/lab/locustfile.py"),
            *("--headless", "--only-summary", "--host", url),
            *("--users", str(scenario.users), "--spawn-rate", str(scenario.users)),
            *("--run-time", f"{scenario.seconds:g}s", "--stop-timeout", "2"),
            *("--trilat-out", self.folder / "run", "--trilat-quiet"),
        ]
        if scenario.generator.processes > 1:
            command += ["--processes", str(scenario.generator.processes)]
        quota = scenario.generator.cpu_quota
        group = stack.enter_context(limited(quota, "generator"))
        namespace = link.generator if link else None
        log = self.folder / "locust.log"
        with started(command, log, env=env, namespace=namespace) as locust:
            _into(group, locust)
            with watching(locust.process.pid) as gauge:
                try:
                    locust.process.wait(scenario.seconds + _ENDS_WITHIN_S)
                except subprocess.TimeoutExpired as error:
                    raise LabError("Locust does not end") from error
        return {"cpu_percent": gauge.busiest, "log": locust.said}

    def _truth(self, captures: list[Capture], apart: bool, ports: list[int]) -> Table:
        logs = self.folder / "logs"
        requests, calls = read_log(logs, "requests", REQUESTS), read_log(logs, "calls", CALLS)
        if not requests.size:
            last = (self.folder / "locust.log").read_text(errors="replace")[-300:]
            raise LabError(f"Locust made no request: {' '.join(last.split())}")
        if not captures:
            return tell(requests, calls)
        behind, front = ports[:2] if self.scenario.service.proxy != "none" else ports[:1] * 2
        service = connections_in(read_segments(captures[-1].path), (behind,))
        generator = service
        if apart or front != behind:
            generator = connections_in(read_segments(captures[0].path), (front,))
        if not self.scenario.service.tls:
            return tell(requests, calls, clear_exchanges(generator), arrivals(service))
        by_port = calls_by_port(calls)
        return tell(requests, calls, tls_exchanges(generator, by_port), arrivals(service, by_port))


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; below those that the kernel gives to clients."""
    held: list[socket.socket] = []
    for port in range(18_000 + os.getpid() % 1000 * 5, 32_000):
        candidate = socket.socket()
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            candidate.close()
            continue
        held.append(candidate)
        if len(held) == count:
            break
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def _into(group: Path | None, process: Started) -> None:
    """Put a process and its threads into a control group."""
    if group is not None:
        group.write_text(str(process.process.pid))
