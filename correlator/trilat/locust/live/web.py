"""A tab in Locust's web UI: the response time split up while the run goes on.

Locust's own way of adding tabs shows tables only. A tab's component may be an element of its own,
though, so ours is one that a small script defines, holding a page of ours in a frame. The page is
there without the tab, too, at ``trilat/``. It asks for new figures every two seconds, as Locust's
pages do, and asks no other host for anything. Everything lies behind Locust's own login.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, Response, make_response, request, send_file

import trilat.correlator.report
from locust.util.date import format_safe_timestamp
from trilat.correlator.sketches.sketch import Sketch

from .csv_files import CsvFiles, table
from .endpoint_rows import EndpointRows
from .watch import Watch

__all__ = ["WebTab"]

_PAGE = Path(__file__).with_name("web_page")
_CHARTS = Path(trilat.correlator.report.__path__[0]) / "vendor" / "chart.umd.min.js"
_FILES = {
    "page.css": (_PAGE / "page.css", "text/css"),
    "page.js": (_PAGE / "page.js", "text/javascript"),
    "figures.js": (_PAGE / "figures.js", "text/javascript"),
    "tab.js": (_PAGE / "tab.js", "text/javascript"),
    "chart.js": (_CHARTS, "text/javascript"),
}
_TAB = {"key": "trilat", "title": "Attribution", "component": "trilat-attribution"}
_SCRIPT = '<script src="./trilat/tab.js"></script>'
_HEADERS = {
    # Names of endpoints are whatever the locustfile or the service makes of them: whatever might
    # slip through the page's own care finds nothing that it may run, load or send to.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_INDEX = "locust.index"


class WebTab:
    """Adds the tab, its page, and downloads to Locust's web UI.

    Args:
        environment: Locust's, in its ``init`` event: the web UI does not serve yet.
        csv: the CSV files that are written, where some are.
        watch: gives who watches the run that goes on or has ended last.
    """

    def __init__(
        self, environment: Any, csv: CsvFiles | None, watch: Callable[[], Watch | None]
    ) -> None:
        self._environment = environment
        self._ui = environment.web_ui
        self._csv = csv
        self._watch = watch
        self._rows_of: Watch | None = None
        self._rows = EndpointRows()

    def install(self) -> None:
        """Add what there is to Locust's application."""
        app: Flask = self._ui.app
        base = getattr(self._environment.parsed_options, "web_base_path", None)
        pages = Blueprint("trilat", __name__, url_prefix=base or None)
        login = self._ui.auth_required_if_enabled
        routes: dict[str, Callable[..., Any]] = {
            "/trilat/": self._page,
            "/trilat/live": self._live,
            "/trilat/attribution.csv": self._attribution,
            "/trilat/attribution_history.csv": self._history,
            "/trilat/<any({}):name>".format(", ".join(f"'{name}'" for name in _FILES)): self._file,
        }
        for rule, view in routes.items():
            pages.add_url_rule(rule, view.__name__.strip("_"), login(view))
        app.register_blueprint(pages)
        app.before_request(self._add_tab)
        app.after_request(self._add_script)

    def _add_tab(self) -> None:
        """Other code may set these arguments after us, so they are looked at for each page."""
        if request.endpoint == _INDEX:
            self._extend("extended_tabs", "key", _TAB)
            files = {"trilat/attribution.csv": "Download attribution CSV"}
            if self._csv is not None:
                files["trilat/attribution_history.csv"] = "Download attribution history CSV"
            for href, title in files.items():
                self._extend("extended_csv_files", "href", {"href": f"./{href}", "title": title})

    def _extend(self, argument: str, key: str, entry: dict[str, str]) -> None:
        entries = self._ui.template_args.get(argument) or []
        if all(each.get(key) != entry[key] for each in entries):
            self._ui.template_args[argument] = [*entries, entry]

    def _add_script(self, response: Response) -> Response:
        if request.endpoint == _INDEX and response.mimetype == "text/html":
            page = response.get_data(as_text=True)
            # What the template puts into the page of its arguments has no "<" in it.
            response.set_data(page.replace("</body>", f"{_SCRIPT}</body>", 1))
        return response

    def _page(self) -> Response:
        return self._file("page.html")

    def _file(self, name: str) -> Response:
        path, kind = _FILES.get(name, (_PAGE / "page.html", "text/html"))
        response = send_file(path, mimetype=kind, conditional=True, max_age=0)
        response.headers.update(_HEADERS)
        return response

    def _live(self) -> Response:
        """New figures; the query says what the page has: ``since`` of the series, ``rows``."""
        watch = self._watch()
        answer: dict[str, Any] = {"run": None}
        if watch is not None and watch.figures:
            answer = self._figures(watch)
        # Not Flask's own way: Locust has it in debug mode, where that takes five times as long.
        text = json.dumps(answer, separators=(",", ":"), allow_nan=False)
        response = Response(text, mimetype="application/json")
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    def _figures(self, watch: Watch) -> dict[str, Any]:
        if self._rows_of is not watch:
            self._rows_of, self._rows = watch, EndpointRows()
        rows = self._rows.look(watch.book, ended=watch.ended)
        series, runner = watch.series, self._environment.runner
        of = f"{watch.run_id}.{series.generation}"
        known = request.args.get("known", 0, type=int) if request.args.get("of") == of else 0
        known = known if 0 <= known <= len(series.points) else 0
        answer: dict[str, Any] = {
            "run": watch.run_id,
            "now": {**watch.figures, "state": runner.state, "users": runner.user_count},
            "series": {
                "of": of,
                "from": known,
                "columns": series.columns,
                "points": series.points[known:],
            },
        }
        version = f"{watch.run_id}.{self._rows.version}"
        if request.args.get("rows") != version:
            answer["endpoints"] = {
                "version": version,
                "endpoints": self._rows.endpoints,
                "rows": rows,
            }
        return answer

    def _attribution(self) -> Response:
        watch = self._watch()
        if watch is None:
            return make_response("There was no run yet.", 404)
        total: Sketch = watch.book.total()
        return self._download(make_response(table(watch.book, total)), "attribution")

    def _history(self) -> Response:
        if self._csv is None:
            return make_response("Locust was started without --csv.", 404)
        response = send_file(self._csv.history_path, mimetype="text/csv", max_age=0)
        return self._download(response, "attribution_history")

    def _download(self, response: Response, what: str) -> Response:
        started: str = format_safe_timestamp(self._environment.stats.start_time)  # type: ignore[no-untyped-call]
        response.headers["Content-Type"] = "text/csv; charset=utf-8"
        response.headers["Content-Disposition"] = (
            f'attachment; filename="Locust_{started}_{what}.csv"'
        )
        return response
