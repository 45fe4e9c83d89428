"""Configurations inside of manifests and Helm values, and the messages about invalid ones."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from support.commands import run
from ugm import ConfigError, load_config, parse_config

PLAIN = """\
partitions:
- queues:
  - name: a
    resources:
      max: {vcore: AMOUNT}
"""
WRAPPERS = {
    "ConfigMap": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yunikorn-configs}\ndata:\n  queues.yaml: |\n{4}",
    "several keys": "kind: ConfigMap\ndata:\n  log.level: INFO\n  queues.yaml: |-\n{4}  other.yaml: 'a: 1'\n",
    "Helm": "replicaCount: 1\nyunikornDefaults:\n  service.policyGroup: queues\n  queues.yaml: |\n{4}",
    "Helm of a subchart": "yunikorn:\n  yunikornDefaults:\n    queues.yaml: |\n{8}",
    "list": "kind: List\nitems:\n- {kind: Secret}\n- kind: ConfigMap\n  data:\n    queues.yaml: |\n{6}",
    "stream": "kind: Namespace\n---\nkind: ConfigMap\ndata:\n  queues.yaml: |2\n{4}---\nkind: Service\n",
    "comments": "# limits\nkind: ConfigMap\ndata:\n  # the queues\n  queues.yaml: |\n    # first\n\n{4}",
}


def wrapped(kind: str, amount: str) -> str:
    """Return a configuration inside of another file."""
    text = WRAPPERS[kind]
    for width in (4, 6, 8):
        text = text.replace(f"{{{width}}}", textwrap.indent(PLAIN.replace("AMOUNT", amount), " " * width))
    return text


@pytest.mark.parametrize("kind", WRAPPERS)
def test_configuration_inside_of_another_file(kind: str, tmp_path: Path) -> None:
    """The one configuration inside of a manifest or of Helm values is read like a file of its own."""
    file = tmp_path / "file.yaml"
    file.write_text(wrapped(kind, "8"))
    assert load_config(file) == parse_config(PLAIN.replace("AMOUNT", "8"))
    assert run("validate", file).exit_code == 0


@pytest.mark.parametrize("kind", WRAPPERS)
def test_problems_have_the_lines_of_the_outer_file(kind: str) -> None:
    """A problem has the line and the column of the outer file."""
    text = wrapped(kind, "eight")
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    (problem,) = caught.value.problems
    assert text.splitlines()[problem.line - 1][problem.column - 1 :] == "eight}"
    assert problem.path == "partitions[0].queues[0].resources.max.vcore"


def test_several_configurations_are_ambiguous() -> None:
    """A file with two configurations is refused with their keys."""
    text = "data:\n" + "".join(f"  {name}.yaml: |\n{textwrap.indent(PLAIN, ' ' * 4)}" for name in ("one", "two"))
    with pytest.raises(ConfigError, match=r"2 configurations: 'data.one.yaml', 'data.two.yaml'"):
        parse_config(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("partitions:\n- queues:\n\t- name: a\n", "a tab character"),
        ("partitions:\n- queues:\n  - name: a\n\t  resources: {}\n", "a tab character"),
        ("partitions:\n- queues: []\n  limits: [{users: [*], maxapplications: 1}]", "quote it: '*'"),
        ("partitions:\n- queues:\n  - name: a\n    submitacl: *\n", "quote it: '*'"),
        ("partitions:\n- queues:\n  - name: @team\n", "cannot begin with @; quote it"),
        (PLAIN.replace("AMOUNT", "-1"), "must not be negative"),
        (PLAIN.replace("AMOUNT", "4.5"), "write 4500m"),
        (PLAIN.replace("vcore: AMOUNT", "memory: 4GB"), "write 4G or 4Gi"),
        (PLAIN.replace("vcore: AMOUNT", "memory: 1.5Gi"), "write 1536Mi"),
    ],
)
def test_messages_name_the_right_text(text: str, words: str) -> None:
    """A message names the problem and the nearest valid spelling."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    assert any(words in problem.message for problem in caught.value.problems)


def test_error_shows_the_line_and_the_place(tmp_path: Path) -> None:
    """The error and the command show the line of the file with a mark under the place."""
    file = tmp_path / "queues.yaml"
    file.write_text(PLAIN.replace("AMOUNT", "x1"))
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    expected = f"          max: {{vcore: x1}}\n{' ' * 23}^"
    assert str(caught.value).split("\n", 1)[1] == expected
    assert expected in run("validate", file).stdout
    assert "\n" not in str(caught.value.problems[0])
