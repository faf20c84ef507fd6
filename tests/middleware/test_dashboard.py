"""The dashboard for Grafana as a file; what its queries give is in `test_prometheus`."""

from __future__ import annotations

import json
import re
from pathlib import Path

DASHBOARD = Path(__file__).parents[2] / "examples/grafana/trilat-service.json"


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """Panels have ids of their own, do not overlap, and take the data source that is chosen."""
    text = DASHBOARD.read_text()
    dashboard = json.loads(text)
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (at["x"] + x, at["y"] + y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["w"])
        for y in range(at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    sources = re.findall(r'"uid": "(.*?)"', text)
    assert set(sources) == {"${datasource}", dashboard["uid"]}


def test_queries_name_what_there_is() -> None:
    """Variables are declared, or Grafana's own; queries of a panel are told apart by letters."""
    dashboard = json.loads(DASHBOARD.read_text())
    variables = dashboard["templating"]["list"]
    declared = {variable["name"] for variable in variables} | {"__rate_interval"}
    asked = [str(variable.get("query")) for variable in variables]
    for panel in dashboard["panels"]:
        targets = panel.get("targets", [])
        assert bool(targets) == (panel["type"] != "row"), panel["title"]
        assert len({target["refId"] for target in targets}) == len(targets)
        assert {target["datasource"]["type"] for target in targets} <= {"prometheus"}
        asked += [target["expr"] for target in targets]
    used = set(re.findall(r"\$\{?(\w+)", " ".join(asked)))
    assert used <= declared
    assert {"job", "instance", "route"} <= used


def test_variables_are_chosen_from_what_a_service_has() -> None:
    """The data source comes first, and each one may use those before it."""
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    assert [variable["name"] for variable in variables] == [
        "datasource",
        "job",
        "instance",
        "route",
    ]
    for at, variable in enumerate(variables):
        earlier = {each["name"] for each in variables[:at]}
        assert set(re.findall(r"\$(\w+)", json.dumps(variable["query"]))) <= earlier
        current = variable.get("current")  # where there is one, Grafana needs both
        assert current is None or {"text", "value"} <= set(current)
