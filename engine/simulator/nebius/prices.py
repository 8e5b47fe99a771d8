"""The billing calculators: estimates from the prices of the world. An estimate is a read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.simulator.nebius.messages import api
from engine.simulator.resources import Refusal

HOURS_A_MONTH = 730
_UNITS = {"size_bytes": 1 << 30, "size_kibibytes": 1 << 20, "size_mebibytes": 1 << 10, "size_gibibytes": 1}


def estimate(package: str, method: str, request: Any, answer_class: Any, prices: Mapping[str, float]) -> Any:
    """The answer of a calculator. Raises `Refusal` for what the world gives no price."""
    from nebius.base.protos.json_format import parse_dict

    if package.endswith("v1alpha1"):
        specs = request.resource_specs if method == "EstimateBatch" else [request.resource_spec]
        total = sum(_hourly(_creation(spec), prices) for spec in specs)
        costs = {"hourlyCost": total, "monthlyCost": total * HOURS_A_MONTH}
        doc: dict[str, Any] = {name: {"general": {"total": _cost(cost)}} for name, cost in costs.items()}
    else:
        each = [_hourly(_packed(spec.spec), prices) for spec in request.resource_specs]
        unit = {"unit": "hour", "unitType": "UNIT_TYPE_TIME_BASED"}
        rows = [{"aggregationUnit": unit, "general": {"total": _cost(cost)}} for cost in each]
        doc = {
            "resourceCosts": rows,
            "totalCosts": [{"aggregationUnit": unit, "general": {"total": _cost(sum(each))}}],
            "currency": request.currency or "USD",
        }
    return parse_dict(doc, answer_class())


def _cost(cost: float) -> dict[str, str]:
    return {"cost": f"{cost:.6f}", "costRounded": f"{cost:.2f}"}


def _creation(spec: Any) -> Any:
    """The request of creation that a v1alpha1 spec holds."""
    which = spec.which_field_in_oneof("resource_spec")
    if not which:
        raise Refusal("INVALID_ARGUMENT", "resource_spec is required")
    return getattr(spec, which)


def _packed(any: Any) -> Any:
    """The request of creation that a v1 spec holds as Any."""
    full = str(any.type_url).rpartition("/")[2]
    package, _, name = full.removeprefix("nebius.").rpartition(".")
    if not full.startswith("nebius.") or not name.startswith(("Create", "Update")):
        raise Refusal("INVALID_ARGUMENT", f"{full or 'an empty spec'} has no price")
    try:
        return getattr(api(package), name).FromString(bytes(any.value))
    except (ImportError, AttributeError):
        raise Refusal("INVALID_ARGUMENT", f"{full} has no price") from None


def _hourly(creation: Any, prices: Mapping[str, float]) -> float:
    """USD an hour of what a request would create."""
    what, spec = type(creation).__name__, creation.spec
    price: float | None = None
    if "Instance" in what:
        shape = spec.resources
        price = prices.get(f"{shape.platform}/{shape.preset}", prices.get(shape.platform))
    elif "Disk" in what or "Filesystem" in what:
        gib = prices.get("disk_gib" if "Disk" in what else "filesystem_gib")
        price = None if gib is None else gib * _gib(spec)
    if price is None:
        raise Refusal("INVALID_ARGUMENT", "this resource has no price")
    return price


def _gib(spec: Any) -> float:
    which = spec.which_field_in_oneof("size")
    return float(getattr(spec, which)) / _UNITS[which] if which in _UNITS else 0.0
