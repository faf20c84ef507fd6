"""An exam: nearly all come within minutes, stay for long, and leave together.

    trilat run -f exam_day.py -- --headless --host http://127.0.0.1:8000 -u 200 -t 2h

Mean figures of such a day say little, since the load changes its kind. First nearly everybody
signs in, which costs the service much processor time for each. Then the same people read and write
quietly, for most of the day. At the end they all hand in at once, and that is the moment in which
nothing may get lost. Each part is a stage of the result: see whether the sign-ins of the late
comers slow down those who work already, and how long it takes to hand in. An objective for that:
``--slo 'p95<=2s @ POST /hand-in'``.

``-t 2m`` rehearses the day in two minutes: a few users more or less, but sign-ins and
hand-ins are then much closer together than they will be.
"""

from __future__ import annotations

from plan import Plan
from student import Student

__all__ = ["ExamDay", "Student"]


class ExamDay(Plan):
    """A fifth of the students comes early, the others at the last moment; all leave at the end.

    They hand in as they leave (`Student.on_stop`).
    """

    minutes = 120.0
    parts = (
        # until then: so many of the students are there, or on their way
        (0.1, 0.2),
        (0.9, 1.0),
        (1.0, 0.0),
    )
    moving = 0.1
    """In which part of the time all of them could come or go."""

    def tick(self) -> tuple[int, float] | None:
        """How many students there should be now, and how many of them come or go in a second."""
        done = self.done
        for until, share in self.parts:
            if done < until:
                return round(self.users * share), self.users / (self.moving * self.seconds)
        return None
