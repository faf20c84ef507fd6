"""Workers of one host: what the master adds up is what their journals hold, request for request."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import Any

from trilat.agent.segment import read_segment
from trilat.correlator.records.frames import split_records
from trilat.correlator.run.rundir import RunDirectory

from ...conftest import Service
from ...servers import free_port
from .conftest import Fleet, attribute_journals, merged


def ask(url: str, **form: Any) -> dict[str, Any]:
    """What Locust's web UI answers to a form."""
    data = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(url, data, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_the_masters_total_is_the_sum_of_the_journals(
    fleet: Fleet, example_service: Service
) -> None:
    """Every component of every histogram of every endpoint, with a reset in between.

    What the run leaves out is told, and it makes the difference to Locust's own count.
    """
    master = fleet.start(
        *("--headless", "--processes", "2", "--host", example_service.url, "--reset-stats"),
        *("-u", "12", "-r", "4", "-t", "6s", "--trilat-out", str(fleet.run.path)),
        *(
            "--only-summary",
            "--master-bind-port",
            str(fleet.port),
            "--master-port",
            str(fleet.port),
        ),
    )
    assert master.wait() == 0, master.said
    books = attribute_journals(fleet.run.journals)
    assert len(books) == 2
    assert merged(books).to_bytes() == fleet.run.read_book().to_bytes()
    for session, book in books.items():
        assert fleet.run.read_worker(session).to_bytes() == book.to_bytes()
    result = fleet.result
    crew, reset = result["run"]["crew"], result["run"]["reset"]
    assert (crew["seen"], crew["at_once"], crew["lost"]) == (2, 2, [])
    assert crew["missing_requests"] == crew["missing_estimate"] == 0
    assert [worker["source"] for worker in crew["workers"]] == ["reports"] * 2
    assert reset["times"] == 1
    assert reset["left_out"] > 0
    (locusts,) = [
        note["locusts"]
        for note in fleet.notes
        if "locusts" in note and note["pid"] == master.process.pid
    ]
    assert result["total"]["requests"] + reset["counted_late"] == locusts
    assert any("are left out" in note for note in result["verdict"]["notes"])
    assert result["run"]["measured_s"] < 6


def test_each_run_from_the_web_page_is_one_of_its_own(
    fleet: Fleet, example_service: Service
) -> None:
    """The next one begins before the last reports of the one before are there: none is mixed up."""
    port = free_port()
    page = f"http://127.0.0.1:{port}"
    master = fleet.start_master(
        example_service.url, *("--web-host", "127.0.0.1", "--web-port", str(port))
    )
    to_master = ("--worker", "--master-port", str(fleet.port))
    workers = [fleet.start(*to_master) for _ in range(2)]
    fleet.until(lambda: master.said.count("reported as ready") == 2, "the workers to be ready")
    for number in range(2):
        seen = len(fleet.notes)

        def came(seen: int = seen) -> set[int]:
            return {note["of"] for note in fleet.notes[seen:] if note.get("came")}

        ask(f"{page}/swarm", user_count=6, spawn_rate=6, host=example_service.url)
        fleet.until(lambda: len(came()) == 2, f"reports of run {number}")
        ask(f"{page}/stop")
    second = RunDirectory(fleet.folder / "run-2")
    fleet.until(second.result.is_file, "a result after the stop")
    master.interrupt()
    assert master.wait() == 0, master.said
    for worker in workers:
        worker.wait()
    results = [RunDirectory.open(run.path).read_result() for run in (fleet.run, second)]
    assert len({result["run"]["run_id"] for result in results}) == 2
    for run, result in zip((fleet.run, second), results, strict=True):
        books = attribute_journals(run.journals)
        assert len(books) == 2
        assert merged(books).to_bytes() == run.read_book().to_bytes()
        assert result["run"]["crew"]["lost"] == []
        assert result["run"]["crew"]["seen"] == 2
    assert not (fleet.folder / "run-3").exists()


def test_a_reset_in_one_process_leaves_the_requests_that_locust_counts(
    fleet: Fleet, example_service: Service
) -> None:
    """Not one more, not one less; the journal keeps them all."""
    local = fleet.start(
        *("--headless", "--host", example_service.url, "--reset-stats", "--only-summary"),
        *("-u", "3", "-r", "2", "-t", "4s", "--trilat-out", str(fleet.run.path)),
    )
    assert local.wait() == 0, local.said
    result = fleet.result
    (locusts,) = [note["locusts"] for note in fleet.notes if "locusts" in note]
    assert result["total"]["requests"] == locusts
    reset = result["run"]["reset"]
    assert (reset["times"], reset["counted_late"]) == (1, 0)
    (book,) = attribute_journals(fleet.run.journals).values()
    assert book.to_bytes() == fleet.run.read_book().to_bytes()
    records = [
        split_records(read_segment(file).records)[0] for file in fleet.run.journals.iterdir()
    ]
    assert sum(rows.size for rows in records) == locusts + reset["left_out"]
    assert not any("stopped after" in warning for warning in result["verdict"]["warnings"])
