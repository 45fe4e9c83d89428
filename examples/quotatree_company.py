"""Departments and teams share a cluster, borrow quota from each other, and reclaim it.

Prints the tree after each step. Run it from a clone with: python examples/quotatree_company.py
"""

from __future__ import annotations

from ugm import Resource
from ugm.quotatree import ConsumerInfo, Mode, QuotaManager, TreeRequest

#: Soft teams may borrow unused quota of other departments; billing is hard and may not.
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
    """A manager with one tree that prints every step."""

    def __init__(self) -> None:
        self.manager = QuotaManager()
        self.manager.add_tree_from_string(COMPANY)
        self.manager.set_mode(Mode.NORMAL)

    def request(self, job: str, team: str, cpu: int, *, priority: int = 0) -> None:
        """Request cores for a job, and print the response and the tree."""
        print(f"\n>>> {job} of {team} requests {cpu}, priority {priority}")
        tree_request = TreeRequest("Company", team, Resource(cpu=cpu), priority)
        self.manager.add_consumer(ConsumerInfo(job, [tree_request]))
        response = self.manager.allocate("Company", job)
        print(response)
        if response:
            self.show()

    def end(self, job: str) -> None:
        """End a job, and print the jobs that slide down."""
        print(f"\n>>> {job} ends")
        self.manager.deallocate("Company", job)
        self.manager.remove_consumer(job)
        self.show()

    def resize(self, team: str, cpu: int, *, department: str) -> None:
        """Change the quota of a team."""
        print(f"\n>>> {team} gets a quota of {cpu}")
        self.manager.get_tree_cache("Company").add_node_spec(team, {"parent": department, "quota": {"cpu": str(cpu)}})
        self.manager.update_tree("Company")
        self.show()

    def show(self) -> None:
        """Print the tree."""
        for node in self.manager.view("Company").nodes:
            jobs = [f"{one.consumer_id} of {one.group} ({one.request['cpu']})" for one in node.consumers]
            held = f": {', '.join(jobs)}" if jobs else ""
            print(f"{'  ' * node.depth}{node.name}, {node.allocated['cpu']} of {node.quota['cpu']}{held}")


def main() -> None:
    """Print a day of the company."""
    company = Company()
    company.request("train", "vision", 3)
    company.request("label", "vision", 3)  # borrows from research
    company.request("tune", "vision", 4)  # borrows from the company
    company.request("shop", "web", 4)  # reclaims the quota of operations
    company.request("invoice", "billing", 3)  # hard: never more than 2
    company.request("urgent", "vision", 2, priority=5)  # the other jobs of the team slide up
    company.end("urgent")  # and slide down again
    company.resize("web", 3, department="operations")  # evicts no job
    company.manager.verify()


if __name__ == "__main__":
    main()
