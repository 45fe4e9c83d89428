"""Quota models in a configuration: reading, files, problems with their places, writing, and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from support.config_cases import places_of
from ugm import ConfigError, Partition, Resource, load_config, parse_config
from ugm.config import ElasticGroup, dump_config, review_file

PREFIX: Final = "quota.scheduling.koordinator.sh/"
TREE: Final = {
    "kind": "QuotaTree",
    "metadata": {"name": "company"},
    "spec": {
        "resourceNames": ["vcore", "memory"],
        "nodes": {
            "A": {"parent": "nil", "hard": "true", "quota": {"vcore": "10", "memory": "4096"}},
            "B": {"parent": "A", "hard": "false", "quota": {"vcore": "1500m", "memory": "2Ki"}},
        },
    },
}


def config(extensions: str) -> str:
    """Return a configuration with some settings of ugm, which begin in the third line."""
    return f"partitions:\n- queues: [{{name: prod}}]\n  ugm: {extensions}\n"


def problems(extensions: str) -> list[str]:
    """Return the line, column, path below ``ugm`` and code of each problem."""
    return places_of(config(extensions), "partitions[0].ugm.")


def groups_of(text: str) -> tuple[ElasticGroup, ...]:
    """Return the elastic groups of a configuration."""
    elastic = parse_config(text).partition().ugm.elastic
    assert elastic is not None
    return elastic.groups


def test_groups_and_manifests_are_the_same() -> None:
    """A group may be written with its fields or as a manifest."""
    fields = (
        "{name: ml, parent: team, min: {vcore: 1500m}, max: {vcore: 4}, sharedweight: {vcore: 2}, allowlent: false}"
    )
    team = "{name: team, isparent: true, min: {vcore: 2}, max: {vcore: 4}}"
    manifest = {
        "kind": "ElasticQuota",
        "metadata": {
            "name": "ml",
            "labels": {f"{PREFIX}parent": "team", f"{PREFIX}allow-lent-resource": "false"},
            "annotations": {f"{PREFIX}shared-weight": '{"cpu": "2"}'},
        },
        "spec": {"min": {"cpu": "1500m"}, "max": {"cpu": 4}},
    }

    written = groups_of(config(f"{{elastic: {{groups: [{team}, {fields}]}}}}"))
    read = groups_of(config(f"{{elastic: {{groups: [{team}, {json.dumps(manifest)}]}}}}"))

    assert written[1] == read[1]
    assert (read[1].min, read[1].allow_lent) == (Resource(vcore=1500), False)


def test_written_configurations_are_read_again() -> None:
    """A written configuration is read as the same one; the models are described with the keys that it has."""
    groups = "[{name: ml, min: {vcore: 1500m}, max: {vcore: 4, memory: 8Gi}, namespaces: [a, b]}]"
    elastic = f"{{groups: {groups}, total: {{vcore: 9}}, groupby: [{{source: user, names: {{ana: ml}}}}]}}"
    trees = f"[{{tree: {json.dumps(TREE)}, groupby: [{{source: tag, tag: t}}], defaultgroup: B, forest: f}}]"
    rules = "{requeuerejected: true}"
    given = parse_config(config(f"{{elastic: {elastic}, quotatrees: {trees}, quotatreerules: {rules}}}"))

    assert parse_config(dump_config(given)) == given
    described = {key for one in Partition(given.partition()).model_reports() for key in one.definition or ()}
    assert described == {"elastic", "quotatrees", "quotatreerules"}


def test_problems_of_groups() -> None:
    """Every violated rule of elastic groups is reported at the field that it concerns."""
    extensions = """
    elastic:
      groups:
      - {name: a, min: {vcore: 3}, max: {vcore: 2}}
      - {name: a, max: {vcore: 2}}
      - {name: b, parent: none, isparent: true, max: {vcore: 2}}
      - {max: {vcore: 2}}
      - {name: team, isparent: true, min: {vcore: 2}, max: {vcore: 4}}
      - {name: c, parent: team, min: {vcore: 3}, max: {vcore: 4, gpu: 1}}
      - kind: ElasticQuota
        metadata: {name: d}
        spec:
          min: {cpu: 2}
          max: {cpu: 1}
      groupby:
      - {source: tag}
      - {source: user, tag: t}
      - {source: queue, names: {root.prod: team, root: a}}
"""
    assert problems(extensions) == [
        "6:19 elastic.groups[0].min elastic-min-exceeds-max",
        "7:16 elastic.groups[1].name elastic-already-exists",
        "8:27 elastic.groups[2].parent elastic-parent-not-found",
        "9:9 elastic.groups[3].name elastic-name-invalid",
        "11:33 elastic.groups[5].min elastic-siblings-min-exceeds-parent-min",
        "11:50 elastic.groups[5].max elastic-max-keys-mismatch",
        "15:11 elastic.groups[6].spec.min elastic-min-exceeds-max",
        "18:9 elastic.groupby[0] group-source-tag-missing",
        "19:29 elastic.groupby[1].tag group-source-tag-unused",
        "20:44 elastic.groupby[2].names.root.prod group-source-group-unknown",
    ]


def test_problems_of_trees() -> None:
    """The problems of a tree document and of its structure are reported at their places."""
    extensions = """
    quotatrees:
    - tree:
        kind: QuotaTree
        metadata: {name: t}
        spec:
          nodes:
            a: {quota: {gpu: x}}
            b: {parent: a}
      groupby: [{source: queue}]
    - tree:
        kind: QuotaTree
        metadata: {name: u}
        spec: {nodes: {a: {quota: {}}, b: {quota: {}}, c: {parent: d, quota: {}}, d: {parent: c, quota: {}}}}
      defaultgroup: b
    - tree: {kind: QuotaTree, metadata: {name: u}, spec: {nodes: {}}}
"""
    assert problems(extensions) == [
        "10:30 quotatrees[0].tree.spec.nodes.a.quota.gpu quantity-invalid",
        "11:16 quotatrees[0].tree.spec.nodes.b.quota node-quota-missing",
        "16:40 quotatrees[1].tree.spec.nodes.b quotatree-roots-several",
        "16:68 quotatrees[1].tree.spec.nodes.c.parent quotatree-node-unconnected",
        "16:95 quotatrees[1].tree.spec.nodes.d.parent quotatree-node-unconnected",
        "17:21 quotatrees[1].defaultgroup quotatree-default-unknown",
        "18:7 quotatrees[2] quotatree-source-missing",
        "18:48 quotatrees[2].tree.metadata.name quotatree-name-duplicate",
        "18:59 quotatrees[2].tree.spec.nodes quotatree-root-missing",
    ]


def test_files(tmp_path: Path) -> None:
    """Groups and trees are read from files next to the configuration, whose problems have the names of these files."""
    (tmp_path / "tree.json").write_text(json.dumps(TREE, indent="\t"), encoding="utf-8")
    (tmp_path / "groups.yaml").write_text(
        "- {name: a, max: {vcore: 1}}\n- {name: b, max: {vcore: 2}}\n", encoding="utf-8"
    )
    path = tmp_path / "queues.yaml"
    extensions = (
        "{elastic: {groups: [{file: groups.yaml}]}, quotatrees: [{tree: {file: tree.json}, unrestricted: true}]}"
    )
    path.write_text(config(extensions), encoding="utf-8")

    partition = load_config(path).partition().ugm
    assert partition.elastic is not None
    assert [group.name for group in partition.elastic.groups] == ["a", "b"]
    assert partition.quota_trees[0].tree.name == "company"

    (tmp_path / "groups.yaml").write_text("- {name: a, min: {vcore: 2},\n   max: {vcore: 1}}\n", encoding="utf-8")
    (tmp_path / "tree.json").unlink()
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert [(Path(one.file).name, one.line, one.code) for one in caught.value.problems] == [
        ("groups.yaml", 1, "elastic-min-exceeds-max"),
        ("queues.yaml", 3, "file-unreadable"),
    ]


def test_only_files_may_name_files() -> None:
    """A text from elsewhere cannot read files of this machine."""
    assert problems("{elastic: {groups: [{file: /etc/passwd}]}}") == ["3:35 elastic.groups[0].file file-not-allowed"]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ('{"name": "g", "max": {"a": 1}, "max": {"a": 2}}', "1:32 max yaml-key-duplicate"),
        ('{"name": "g", "max": {"a": 1,\n"a": 2}}', "2:1 max.a yaml-key-duplicate"),
        ('{"name": "g", "max": {"\\ud800": 1}}', "1:26  yaml-syntax"),
    ],
)
def test_included_json_has_the_rules_of_yaml(tmp_path: Path, group: str, expected: str) -> None:
    """A duplicate key and half of a surrogate pair in an included JSON file are problems with places in that file."""
    (tmp_path / "g.json").write_text(group)
    file = tmp_path / "queues.yaml"
    file.write_text(config("{elastic: {groups: [{file: g.json}]}}"))

    [found] = review_file(file).problems
    assert found.file == str(tmp_path / "g.json")
    assert f"{found.line}:{found.column} {found.path} {found.code}" == expected
