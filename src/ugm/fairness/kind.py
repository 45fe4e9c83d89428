"""The kind of fair shares that a configuration declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

from ugm.configuration import FairShareConfig, PartitionConfig
from ugm.configuration.fields import setting_texts
from ugm.configuration.model_kinds import ModelDefinition, ModelKind, ModelPart
from ugm.configuration.scheduler import Finding
from ugm.fairness.declared import declared_shares, share_findings
from ugm.fairness.model import FairShares

__all__ = ["KIND"]


@final
class _ShareKind(ModelKind):
    __slots__ = ()

    def definitions(
        self,
        config: PartitionConfig,
        before: Sequence[ModelDefinition],  # noqa: ARG002 - shares depend on no others
    ) -> Iterator[ModelDefinition]:
        """Return the one definition."""
        yield ModelDefinition("fair_share", "fair shares", "", config.ugm.fair_share)

    def build(self, content: FairShareConfig) -> FairShares:
        """Return the model."""
        return declared_shares(content)

    def parts(self, definition: ModelDefinition) -> Iterator[ModelPart]:
        """Yield the settings, the accounts and the users."""
        content: FairShareConfig = definition.content
        yield ("settings", definition.kind), setting_texts(content, "accounts", "users")
        for kind, nodes in (("share account", content.accounts), ("share user", content.users)):
            yield from (((kind, path), {"shares": shares}) for path, shares in nodes.items())

    def findings(self, config: PartitionConfig) -> Iterator[Finding]:
        """Yield the violations of the rules of shares."""
        for found in share_findings(config.ugm.fair_share or FairShareConfig()):
            yield found.below(("ugm", "fairshare"))


KIND: Final = _ShareKind()
