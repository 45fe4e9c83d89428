"""Budgets that a configuration declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ugm.budgets.budget import Budget, BudgetMode, Carry
from ugm.budgets.coverage import ChainFinder
from ugm.budgets.model import Budgets
from ugm.configuration import BudgetConfig, BudgetUnit
from ugm.model import Period

__all__ = ["UNITS", "declared_budget", "declared_budgets"]

#: The seconds of each time unit.
UNITS: Final[Mapping[BudgetUnit, int]] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


def declared_budget(config: BudgetConfig) -> Budget:
    """Return the budget that a configuration declares.

    Raises:
        RequestError: a field is invalid.

    >>> from ugm import Resource
    >>> declared_budget(BudgetConfig("lab", group="lab", amounts=Resource(gpu=100), unit="hour")).amounts
    Resource(gpu=360000)
    """
    seconds = UNITS[config.unit]
    return Budget(
        config.name,
        amounts=config.amounts * seconds,
        user=config.user or None,
        group=config.group or None,
        elastic_group=config.elastic_group or None,
        quota_node=config.quota_node or None,
        queue=config.queue,
        period=Period(config.period),
        carry=Carry(config.carry),
        cap=config.cap * seconds,
        mode=BudgetMode(config.mode),
        zone=config.zone,
        weights=dict(config.weights),
    )


def declared_budgets(
    configs: Iterable[BudgetConfig], elastic_groups: ChainFinder | None, quota_nodes: ChainFinder | None
) -> Budgets:
    """Return the model of the budgets that a configuration declares.

    Args:
        configs: the budgets.
        elastic_groups: returns the elastic group of a claim and those above it; None if there are no such groups.
        quota_nodes: returns the nodes of a claim in all quota trees, as ``tree/node``; None if there are no trees.

    Raises:
        RequestError: a budget is invalid, or two have the same name.
    """
    return Budgets(map(declared_budget, configs), elastic_groups=elastic_groups, quota_nodes=quota_nodes)
