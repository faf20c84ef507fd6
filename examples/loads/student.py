"""A user with a name: signs in, keeps a token, does several things, and looks at the answers.

    trilat run -f student.py -- --headless --host http://127.0.0.1:8000 -u 20 -r 5 -t 2m

What makes it realistic:

- Everybody signs in as somebody else, with an account from ``students.csv``. A service that sees
  one account a thousand times answers from its caches.
- The token of the sign-in goes with every further request. If it is refused, the student signs in
  again, as the page in a browser would.
- Tasks have weights: of 12 things that a student does, 8 are to read a question, 3 to save an
  answer and 1 to look at the list.
- An answer with status 200 may still be wrong: an error page, or somebody else's data. So answers
  are checked, and what is wrong counts as a failure, with the reason in Locust's report.
- Think time is random, so students do not move in step.
"""

from __future__ import annotations

import csv
import random
from itertools import count
from pathlib import Path
from typing import Any

from locust import FastHttpUser, between, task
from locust.exception import StopUser

import trilat.locust  # noqa: F401 - marks the requests and splits their response times

with Path(__file__).with_name("students.csv").open(newline="") as file:
    ACCOUNTS = list(csv.DictReader(file))
_students = count()


def next_account(environment: Any) -> dict[str, str]:
    """The account of one more student; from the start again after the last one.

    With ``--processes 4`` each process takes every fourth line, so no account is given twice as
    long as there are enough. Workers of several machines need files of their own for that.
    """
    processes = environment.parsed_options.processes or 1
    mine = max(getattr(environment.runner, "worker_index", 0), 0) % processes
    return ACCOUNTS[(mine + processes * next(_students)) % len(ACCOUNTS)]


class Student(FastHttpUser):
    """Reads questions and saves answers, then hands in."""

    wait_time = between(0.5, 2)

    def on_start(self) -> None:
        """Sign in; who cannot is no student."""
        self.account = next_account(self.environment)
        self.headers: dict[str, str] = {}
        if not self.sign_in():
            raise StopUser

    def sign_in(self) -> bool:
        """Get a token. Its absence is a failure, whatever the status says."""
        with self.client.post("/sign-in", json=self.account, catch_response=True) as response:
            token = _field(response, "token")
            if not token:
                response.failure(f"no token (status {response.status_code})")
                return False
        self.headers = {"Authorization": f"Bearer {token}"}
        return True

    @task(8)
    def read_question(self) -> None:
        """Read one; the answer must be about the one that was asked for."""
        number = random.randint(1, 30)
        with self.client.get(
            f"/item/{number}", name="/item/[id]", headers=self.headers, catch_response=True
        ) as response:
            self.check(response, "id", number)

    @task(3)
    def save_answer(self) -> None:
        """Save an answer; it must be saved under this student's name."""
        with self.client.put(
            f"/answers/{random.randint(1, 30)}",
            name="/answers/[id]",
            json={"text": "because"},
            headers=self.headers,
            catch_response=True,
        ) as response:
            self.check(response, "of", self.account["name"])

    @task(1)
    def look_at_the_list(self) -> None:
        """Look at all questions; an empty list is not what an exam has."""
        with self.client.get("/items", headers=self.headers, catch_response=True) as response:
            self.check(response, "items", list(range(1, 31)))

    def on_stop(self) -> None:
        """Hand in, as far as the student got in."""
        if self.headers:
            with self.client.post("/hand-in", headers=self.headers, catch_response=True) as answer:
                self.check(answer, "handed_in_by", self.account["name"])

    def check(self, response: Any, field: str, right: object) -> None:
        """Count an answer as failed if it does not say what it must; sign in again if refused."""
        if response.status_code == 401:
            response.failure("the token is refused")
            self.sign_in()
        elif (said := _field(response, field)) != right:
            response.failure(f"{field} is {said!r} (status {response.status_code})")


def _field(response: Any, name: str) -> Any:
    """A field of an answer in JSON; None where there is no such answer."""
    try:
        return response.json()[name]
    except (ValueError, LookupError, TypeError):
        return None
