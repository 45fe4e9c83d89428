"""Budgets: limits on amounts over time, such as GPU hours in a month.

`Budgets` is a quota model. An allocation promises a duration, and is granted if the account of its user, its group or
its queue has enough left for it. What it really uses is settled second by second.
"""

from ugm.budgets.accounts import BudgetViolation
from ugm.budgets.budget import Budget, BudgetMode, Carry
from ugm.budgets.model import Budgets
from ugm.model import AccountState, BudgetChange, BudgetChangeKind, Period, Scope

__all__ = [
    "AccountState",
    "Budget",
    "BudgetChange",
    "BudgetChangeKind",
    "BudgetMode",
    "BudgetViolation",
    "Budgets",
    "Carry",
    "Period",
    "Scope",
]
