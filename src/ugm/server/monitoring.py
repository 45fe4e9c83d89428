"""A Grafana dashboard and alert rules for Prometheus, generated from the table of metrics.

``docs/make_monitoring.py`` writes them to ``examples/monitoring``, and the table to the page on metrics. Tests check
that these files are up to date, that ``promtool`` accepts all expressions, and that each returns data from a running
server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ugm._json_values import JsonObject
from ugm.server.metric_table import METRICS, MetricDescription, MetricKind

__all__ = ["ALERTS", "AlertRule", "alert_rules", "dashboard", "reference_table"]

#: The selection of the variables of the dashboard, by label.
_VARIABLES: Final = {"partition": "$partition", "queue": "$queue"}
#: The interval over which rates are computed; Grafana replaces it by a multiple of the time between two scrapes.
_RATE: Final = "$__rate_interval"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
#: The units of Grafana, by the end of the name of a metric.
_UNITS: Final = {"_bytes": "bytes", "_seconds": "s", "_share": "percentunit", "_unit_seconds": "none"}
#: The width of the dashboard, and the size of a panel.
_WIDTH: Final = 24
_PANEL: Final = (8, 8)
#: The rows of the dashboard: the title, and the beginning of the names of the metrics.
_ROWS: Final[Mapping[str, tuple[str, ...]]] = {
    "Service": ("ugm_service",),
    "Queues": ("ugm_queue_",),
    "Users": ("ugm_user_",),
    "Groups": ("ugm_group_",),
    "Elastic groups": ("ugm_elastic_group_",),
    "Quota trees": ("ugm_quota_node_",),
    "Budgets": ("ugm_budget_",),
    "Thresholds": ("ugm_threshold_",),
    "Fair shares": ("ugm_fair_share_",),
    "Preemption": ("ugm_preemption_", "ugm_terminating_", "ugm_placed_", "ugm_reduction_"),
    "Partition and configuration": ("ugm_",),
}


class _Panel(NamedTuple):
    title: str
    #: Pairs of an expression and its legend.
    targets: Sequence[tuple[str, str]]
    unit: str = "none"
    sentence: str = ""


class AlertRule(NamedTuple):
    """An alert for Prometheus."""

    name: str
    #: The alert is active while the expression has a result.
    expression: str
    #: The time for which it must have been active before it fires, for example ``5m``.
    hold: str
    #: ``critical`` if operation is impaired, ``warning`` if it may soon be, otherwise ``info``.
    severity: str
    #: A sentence for people, with labels in the syntax of Prometheus.
    summary: str


def _p99(name: str) -> str:
    return f"histogram_quantile(0.99, sum by (partition, le) (rate({name}_bucket[5m])))"


#: All alerts. Their thresholds are starting points for operators.
ALERTS: Final[tuple[AlertRule, ...]] = (
    AlertRule(
        "UgmConfigurationRefused",
        "ugm_configuration_refused == 1",
        "1m",
        "warning",
        "The configuration file has problems; the configuration before it stays in force.",
    ),
    AlertRule(
        "UgmConfigurationUnapplied",
        "ugm_configuration_unapplied == 1",
        "1m",
        "warning",
        "The configuration file was changed while the server was down, and is not in force.",
    ),
    AlertRule(
        "UgmModelSuspended",
        "ugm_suspended_models > 0",
        "0m",
        "critical",
        "A quota model of {{ $labels.partition }} has an unknown state, and every request is denied.",
    ),
    AlertRule(
        "UgmNoLeader",
        "max by (partition) (ugm_service_leading) == 0",
        "30s",
        "critical",
        "No process leads {{ $labels.partition }}.",
    ),
    AlertRule(
        "UgmLogUnavailable",
        "ugm_service_log_available == 0",
        "30s",
        "critical",
        "The log of {{ $labels.partition }} accepts no changes.",
    ),
    AlertRule(
        "UgmNoStandby",
        "ugm_service_standbys == 0",
        "10m",
        "warning",
        "No process stands by for {{ $labels.partition }}.",
    ),
    AlertRule(
        "UgmStandbyLags",
        "ugm_service_standby_age_seconds > 30",
        "1m",
        "warning",
        "The standby {{ $labels.standby }} of {{ $labels.partition }} is {{ $value | humanizeDuration }} behind.",
    ),
    AlertRule(
        "UgmSlowCommits",
        f"{_p99('ugm_service_commit_seconds')} > 0.5",
        "5m",
        "warning",
        "1 % of the commits of {{ $labels.partition }} take longer than {{ $value | humanizeDuration }}.",
    ),
    AlertRule(
        "UgmSlowDecisions",
        f"{_p99('ugm_decision_seconds')} > 0.01 or {_p99('ugm_service_operation_seconds')} > 0.01",
        "5m",
        "warning",
        "1 % of the decisions of {{ $labels.partition }} take longer than {{ $value | humanizeDuration }}.",
    ),
    AlertRule(
        "UgmRequestWaitsLong",
        'ugm_queue_oldest_pending_seconds{queue!="root"} > 86400',
        "10m",
        "warning",
        "A request in {{ $labels.queue }} of {{ $labels.partition }} has waited for {{ $value | humanizeDuration }}.",
    ),
    AlertRule(
        "UgmGuaranteeUnused",
        " or ".join(
            f"(ugm_queue_usage{unit} < ugm_queue_guaranteed{unit}) and (ugm_queue_pending{unit} > 0)"
            for unit in ("_cores", "_bytes", "_units")
        ),
        "30m",
        "warning",
        "Requests wait in {{ $labels.queue }} of {{ $labels.partition }}, which has less than its guarantee.",
    ),
    AlertRule(
        "UgmQueueNearMaximum",
        " or ".join(
            f"ugm_queue_usage{unit} / (ugm_queue_limit{unit} > 0) > 0.95" for unit in ("_cores", "_bytes", "_units")
        ),
        "30m",
        "info",
        "{{ $labels.queue }} of {{ $labels.partition }} uses {{ $value | humanizePercentage }} of its maximum.",
    ),
    AlertRule(
        "UgmLimitExceeded",
        "ugm_user_limit_share > 1 or ugm_group_limit_share > 1",
        "30m",
        "info",
        "{{ $labels.user }}{{ $labels.group }} of {{ $labels.partition }} exceeds a limit, for example a lowered one.",
    ),
    AlertRule(
        "UgmManyDenials",
        "sum by (partition, queue) (rate(ugm_denials_total[5m])) > 10",
        "10m",
        "info",
        "{{ $labels.queue }} of {{ $labels.partition }} denies {{ $value | humanize }} requests per second.",
    ),
    AlertRule(
        "UgmBudgetNearlySpent",
        "ugm_budget_remaining_unit_seconds < 0.05 * ugm_budget_limit_unit_seconds",
        "0m",
        "info",
        "{{ $labels.owner }} has less than 5 % of the budget {{ $labels.budget }} left ({{ $labels.resource }}).",
    ),
)


def alert_rules() -> JsonObject:
    """Return the alerts in the form of a rule file of Prometheus."""
    rules = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            "for": rule.hold,
            "labels": {"severity": rule.severity},
            "annotations": {"summary": rule.summary},
        }
        for rule in ALERTS
    ]
    return {"groups": [{"name": "ugm", "rules": rules}]}


def reference_table() -> str:
    """Return the table of all metrics in Markdown."""
    lines = ["| metric | kind | further labels | description |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels if label != "partition")
        suffix = {MetricKind.COUNTER: "_total"}.get(metric.kind, "…" if metric.is_amount else "")
        lines.append(f"| `{metric.name}{suffix}` | {metric.kind} | {labels} | {metric.sentence} |")
    return "\n".join(lines) + "\n"


# The dashboard


def dashboard() -> JsonObject:
    """Return the dashboard as JSON for Grafana."""
    return {
        "uid": "ugm",
        "title": "ugm quotas",
        "tags": ["ugm"],
        "schemaVersion": 38,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_placed_panels()),
    }


def _variables() -> Iterator[JsonObject]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name, query in (
        ("partition", "label_values(ugm_queues, partition)"),
        ("queue", 'label_values(ugm_queue_running_applications{partition=~"$partition"}, queue)'),
    ):
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _placed_panels() -> Iterator[JsonObject]:
    """Yield all rows and panels with their ids and places."""
    identity, top = 0, 0
    for title, panels in _rows():
        identity += 1
        row = {"h": 1, "w": _WIDTH, "x": 0, "y": top}
        yield {"id": identity, "type": "row", "title": title, "gridPos": row, "collapsed": False, "panels": []}
        top += 1
        width, height = _PANEL
        for number, panel in enumerate(panels):
            identity += 1
            column, line = number % (_WIDTH // width), number // (_WIDTH // width)
            place = {"h": height, "w": width, "x": column * width, "y": top + line * height}
            yield _panel_dict(panel, identity, place)
        top += -(-len(panels) // (_WIDTH // width)) * height


def _panel_dict(panel: _Panel, identity: int, place: Mapping[str, int]) -> JsonObject:
    return {
        "id": identity,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.sentence,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(panel.targets)
        ],
    }


def _rows() -> Iterator[tuple[str, list[_Panel]]]:
    yield "Overview", list(_overview())
    left = list(METRICS)
    for title, prefixes in _ROWS.items():
        found = [metric for metric in left if metric.name.startswith(prefixes)]
        left = [metric for metric in left if metric not in found]
        yield title, list(map(_metric_panel, found))


def _overview() -> Iterator[_Panel]:
    units = ("_cores", "_bytes", "_units")
    for title, of in (("Used part of the maximum", "limit"), ("Used part of the guarantee", "guaranteed")):
        targets = [
            (
                f"{_selected(f'ugm_queue_usage{unit}')} / ({_selected(f'ugm_queue_{of}{unit}')} > 0)",
                f"{{{{queue}}}} {'cores' if unit == '_cores' else '{{resource}}'}",
            )
            for unit in units
        ]
        yield _Panel(f"Queues: {title.lower()}", targets, "percentunit")
    oldest = _selected("ugm_queue_oldest_pending_seconds")
    yield _Panel("Oldest pending request", [(oldest, "{{queue}}")], "s")
    denials = f"sum by (partition, queue, kind) (rate(ugm_denials_total{_selection('partition', 'queue')}[{_RATE}]))"
    yield _Panel("Denials per second by queue and kind of limit", [(denials, "{{queue}} {{kind}}")])
    users = f"topk(10, {_selected('ugm_user_limit_share', 'partition')})"
    yield _Panel("Users closest to a limit", [(users, "{{user}}")], "percentunit")
    groups = f"topk(10, {_selected('ugm_group_limit_share', 'partition')})"
    yield _Panel("Groups closest to a limit", [(groups, "{{group}}")], "percentunit")


def _metric_panel(metric: MetricDescription) -> _Panel:
    title = metric.name.removeprefix("ugm_").replace("_", " ").capitalize()
    targets = [target for variant in metric.variants() for target in _targets(variant)]
    unit = next((unit for end, unit in reversed(_UNITS.items()) if metric.name.endswith(end)), "none")
    return _Panel(title, targets, unit, metric.sentence)


def _targets(metric: MetricDescription) -> Iterator[tuple[str, str]]:
    selection = _selection(*(label for label in metric.labels if label in _VARIABLES))
    shown = [label for label in metric.labels if label != "partition"]
    legend = " ".join(["{{partition}}", *(f"{{{{{label}}}}}" for label in shown)] if shown else ["{{partition}}"])
    if metric.kind is MetricKind.HISTOGRAM:
        for quantile in ("0.5", "0.99"):
            rate = f"sum by (partition, le) (rate({metric.name}_bucket{selection}[{_RATE}]))"
            yield f"histogram_quantile({quantile}, {rate})", f"{{{{partition}}}} {quantile}"
    elif metric.kind is MetricKind.COUNTER:
        yield f"rate({metric.name}_total{selection}[{_RATE}])", legend
    else:
        yield f"{metric.name}{selection}", legend


def _selected(name: str, *labels: str) -> str:
    return f"{name}{_selection(*(labels or ('partition', 'queue')))}"


def _selection(*labels: str) -> str:
    return "{" + ",".join(f'{label}=~"{_VARIABLES[label]}"' for label in labels) + "}" if labels else ""
