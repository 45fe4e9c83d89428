"""Departments and teams that share a cluster: they borrow from each other, make room, and take back what is theirs.

Shows the tree after each step. Run it from a clone with: python examples/quotatree_company.py
"""

from __future__ import annotations

from ugm import Resource
from ugm.quotatree import ConsumerInfo, Mode, QuotaManager, TreeRequest, draw

#: Research may borrow what operations leave; billing keeps to itself, because it is hard.
COMPANY = """
kind: QuotaTree
metadata: {name: Company}
spec:
  resourceNames: [cpu]
  nodes:
    company:    {parent: nil, quota: {cpu: "12"}}
    research:   {parent: company, quota: {cpu: "6"}}
    vision:     {parent: research, quota: {cpu: "3"}}
    speech:     {parent: research, quota: {cpu: "3"}}
    operations: {parent: company, quota: {cpu: "6"}}
    web:        {parent: operations, quota: {cpu: "4"}}
    billing:    {parent: operations, hard: true, quota: {cpu: "2"}}
"""


class Company:
    """A manager with one tree, and a voice."""

    def __init__(self) -> None:
        self.manager = QuotaManager()
        self.manager.add_tree_from_string(COMPANY)
        self.manager.set_mode(Mode.NORMAL)

    def ask(self, job: str, team: str, cpu: int, *, priority: int = 0) -> None:
        """Have a job ask for cores; show the plan, or why there is none, and then what came of it."""
        print(f"\n>>> {job} of {team} asks for {cpu}, priority {priority}")
        request = TreeRequest("Company", team, Resource(cpu=cpu), priority)
        self.manager.add_consumer(ConsumerInfo(job, [request]))
        print(self.manager.plan_allocate("Company", job))
        if self.manager.allocate("Company", job):
            self.show()

    def end(self, job: str) -> None:
        """Have a job end, and show who comes down for it."""
        print(f"\n>>> {job} ends")
        self.manager.deallocate("Company", job)
        self.manager.remove_consumer(job)
        self.show()

    def resize(self, team: str, cpu: int, *, department: str) -> None:
        """Give a team another quota."""
        print(f"\n>>> {team} gets a quota of {cpu}")
        self.manager.get_tree_cache("Company").add_node_spec(team, {"parent": department, "quota": {"cpu": str(cpu)}})
        self.manager.update_tree("Company")
        self.show()

    def show(self) -> None:
        """Show the tree."""
        print(draw(self.manager.view("Company")))


def main() -> None:
    """Show a day of the company."""
    company = Company()
    company.ask("train", "vision", 3)
    company.ask("label", "vision", 3)  # borrows from research
    company.ask("tune", "vision", 4)  # borrows from the company
    company.ask("shop", "web", 4)  # takes back what belongs to operations
    company.ask("invoice", "billing", 3)  # is hard, and never gets more than 2
    company.ask("urgent", "vision", 2, priority=5)  # makes the others of its team slide up
    company.end("urgent")  # and they come down again
    company.resize("web", 3, department="operations")  # nobody is put out for it
    company.manager.verify()


if __name__ == "__main__":
    main()
