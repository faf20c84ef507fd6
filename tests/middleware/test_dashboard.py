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
