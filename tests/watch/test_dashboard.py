"""The Grafana dashboard and the guide's alerts: every name and label is one that is exported."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from statekit.watch.names import METRICS, REASONS
from statekit.watch.service_names import DIRECTIONS, REPLICA_STATES, SERVICE_METRICS, SESSION_STATES

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = json.loads((DOCS / "dashboards" / "statekit.json").read_text(encoding="utf-8"))
PANELS = DASHBOARD["panels"]
EVERY = (*METRICS, *SERVICE_METRICS)
BY_NAME = {metric.name: metric for metric in EVERY}
WORDS = {"direction": {*DIRECTIONS}, "state": {*REPLICA_STATES, *SESSION_STATES}}
SELECTOR = re.compile(r"\b(statekit_[a-z_]+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
MATCHER = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')


def queries(data: Any) -> list[str]:
    """Every PromQL text of the dashboard."""
    return [target["expr"] for panel in data for target in panel.get("targets", ())]


def faults(query: str) -> list[str]:
    """Names and labels of a query that are not exported, or not together."""
    found = []
    common = {"instance", "job", "le"}
    labels = set(common)
    for name, selector in SELECTOR.findall(query):
        metric = BY_NAME.get(re.sub(r"_(bucket|sum|count)$", "", name))
        if metric is None:
            found.append(name)
            continue
        if (metric.kind == "histogram") != (metric.name != name):
            found.append(f"{name} is a {metric.kind}")
        subject = "service" if metric in SERVICE_METRICS else "manager"
        labels |= {subject, *metric.labels}
        for label, value in MATCHER.findall(selector):
            if label not in {*metric.labels, subject}:
                found.append(f"{name} has no label {label}")
            words = REASONS.get(metric.name, ())
            if label == "reason" and not set(value.split("|")) <= {*words, "other"}:
                found.append(f"{name} has no reason {value}")
            if not set(value.split("|")) <= WORDS.get(label, set(value.split("|"))):
                found.append(f"{name} has no {label} {value}")
        if metric.kind == "counter" and not re.search(
            rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[", query
        ):
            found.append(f"{name} is a counter, and only its rate says something")
    for group in GROUPING.findall(query):
        found += [f"no label {one}" for one in re.split(r"\s*,\s*", group) if one not in labels]
    return found


@pytest.mark.parametrize("query", queries(PANELS))
def test_dashboard_when_it_queries_then_names_and_labels_are_exported(query: str) -> None:
    """And every query obeys the choice of managers, or of services."""
    assert faults(query) == []
    chosen = len(re.findall(r'(manager=~"\$manager"|service=~"\$service")', query))
    assert query.count("statekit_") == chosen


def test_dashboard_when_read_then_every_metric_is_on_it() -> None:
    """Nothing is exported that nobody sees."""
    text = " ".join(queries(PANELS))
    missing = [one.name for one in EVERY if not re.search(rf"\b{one.name}(_bucket)?\b", text)]
    assert missing == []


def test_dashboard_when_laid_out_then_panels_are_apart_and_in_the_grid() -> None:
    """Ids differ, no two panels overlap, none is wider than the screen."""
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    places = [panel["gridPos"] for panel in PANELS]
    assert all(one["x"] >= 0 and one["x"] + one["w"] <= 24 and one["h"] > 0 for one in places)
    for one, other in itertools.combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_dashboard_when_imported_then_it_asks_for_the_data_source() -> None:
    """Rows as an operator asks; the source is a variable; each panel says what it shows."""
    assert DASHBOARD["schemaVersion"] >= 39
    assert [one["title"] for one in PANELS if one["type"] == "row"] == [
        "Capacity",
        "Pressure",
        "Latency",
        "Losses",
        "Replicas",
    ]
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for name in ("manager", "service"):
        assert faults(variables[name]["definition"]) == []
    for panel in PANELS:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["description"].endswith(".")
            assert all(one["datasource"]["uid"] == "${datasource}" for one in panel["targets"])
            refs = [one["refId"] for one in panel["targets"]]
            assert len(set(refs)) == len(refs)


def test_faults_when_there_are_some_then_found() -> None:
    """The check itself sees a wrong name, label, reason, kind and group."""
    assert faults("sum(statekit_nothing)") == ["statekit_nothing"]
    assert faults('statekit_leases{bucket="attrs"}') == ["statekit_leases has no label bucket"]
    assert faults("sum by (tier) (statekit_leases)") == ["no label tier"]
    assert faults("statekit_park_seconds") == ["statekit_park_seconds is a histogram"]
    assert faults("statekit_hits_total") != []
    assert faults('statekit_replica_state{state="sick"}') == [
        "statekit_replica_state has no state sick"
    ]
    assert faults("sum by (manager) (statekit_service_up)") == ["no label manager"]
    assert faults('rate(statekit_losses_total{reason="age"}[5m])') == [
        "statekit_losses_total has no reason age"
    ]
