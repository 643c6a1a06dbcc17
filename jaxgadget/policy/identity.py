"""Records and digests that identify gadgets, policies, players and games in resumed sweeps and matches."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgadget.gadgets.registry import ALTERNATIVES, GADGETS, GENERATIONS, PRIORS, RANGE_VALUES
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.tree.public import PublicTree, Tree
from jaxgadget.util.digest import digest
from jaxgadget.util.registry import find

DEFAULTS = {"form": "histories"}
"""Items of a request that are not recorded, so that sweeps of earlier versions can be resumed."""

FINGERPRINT = "fingerprint"
"""Name of the attribute with the digest of an object's content: a folder, a player, a value function."""

KINDS = {path: name for table in (GADGETS, PRIORS, ALTERNATIVES) for name, path in table.items()}
"""Names of gadgets, priors and alternative values: `module:object` → name."""

RESTORED = frozenset(KINDS) | {*GENERATIONS.values(), *RANGE_VALUES.values()}
"""Classes whose objects `restore` makes, as `module:object`."""


def identity(value: Any) -> Any:
    """Converts a gadget or `Knowledge` to JSON, equal for equal objects; arrays and folders become digests.

    Raises:
      ValueError: for a value that is neither a dataclass nor a plain value.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list | frozenset | set):
        return [identity(item) for item in (value if isinstance(value, tuple | list) else sorted(value))]
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, Policy):
        return {"label": ", ".join(value.labels), "digest": digest(*value.probabilities)}
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return {"shape": list(array.shape), "dtype": str(array.dtype), "digest": digest(array)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        names = {field.name: None for field in fields} | getattr(value, "__dict__", {})
        for field in fields:  # so that a sweep from before the field existed can be resumed
            if field.metadata.get("later", False) and getattr(value, field.name) is field.default:
                del names[field.name]
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        names |= {FINGERPRINT: None} if hasattr(type(value), FINGERPRINT) else {}
        return {"class": kind} | {name: identity(getattr(value, name)) for name in names}
    raise ValueError(
        f"{value!r} in a gadget, prior or generation: a resumed sweep must tell it from others; expected a "
        "dataclass of numbers, strings and arrays"
    )


def restore(record: Any, *classes: type) -> Any:
    """Makes an object from its `identity`: a plain value, or one of a registered class.

    Args:
      record: the record; lists become tuples.
      classes: further dataclasses.

    Raises:
      ValueError: if the object's class is neither registered nor among `classes`, or if the object that is
        made has another identity.
    """
    if isinstance(record, list):
        return tuple(restore(item, *classes) for item in record)
    if not isinstance(record, Mapping):
        return record
    path = ":".join(str(record.get("class")).rsplit(".", 1))
    paths = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in classes}
    if path not in paths and path not in RESTORED:
        raise ValueError(f"{label(record)}: its class {path!r} is not one of this package")
    kind = paths.get(path) or find({path: path}, path, "class")
    fields = {field.name for field in dataclasses.fields(kind) if field.init}
    try:
        made = kind(**{name: restore(item, *classes) for name, item in record.items() if name in fields})
    except TypeError as error:
        raise ValueError(f"{label(record)}: its record is of another version ({error})") from error
    if identity(made) != record:
        raise ValueError(f"{label(record)} has changed: its record is of another version or folder")
    return made


def player_identity(name: str, value: Any) -> Any:
    """Converts a player or value function to JSON, equal for equal objects, as `identity`.

    The attribute `fingerprint` alone identifies an object that has it; its object identifies a method.

    Args:
      name: name of the player, for errors.
      value: the player.

    Raises:
      ValueError: for an object without an identity, such as a function.
    """
    value = value.__self__ if inspect.ismethod(value) else value
    own = getattr(value, FINGERPRINT, None)
    if own is not None:
        return own
    try:
        return identity(value)
    except ValueError:
        raise ValueError(
            f"{name} is {value!r}, which a resumed match cannot tell from others; expected a policy, a "
            "network, a named bot, a dataclass of numbers, strings and arrays, or an object with the "
            f"attribute {FINGERPRINT!r}, a text that changes with its play"
        ) from None


def lane_digest(policy: Policy, lane: int) -> str:
    """Digest of a lane's probabilities."""
    return digest(*(rows[:, lane] for rows in policy.probabilities))


def record_digest(record: Mapping[str, Any]) -> str:
    """Digest of a record, sixteen hexadecimal digits."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def fingerprint(tree: Tree) -> str:
    """Digest of a game's rules: nodes, actions, payoffs, chance probabilities and names of infosets."""
    if "fingerprint" not in tree.cache:
        is_public = isinstance(tree, PublicTree)
        tree.cache["fingerprint"] = (
            _digest_hands(tree) if is_public else _digest_histories(check_histories(tree))
        )
    return tree.cache["fingerprint"]


def _digest_histories(tree: HistoryTree) -> str:
    names = np.frombuffer("\n".join("\0".join(each) for each in tree.infoset_names).encode(), np.uint8)
    arrays = [tree.parent, tree.actor, tree.action, tree.chance, tree.payoff]
    return digest(*arrays, tree.infostate, tree.infoset, names)


def _digest_hands(tree: PublicTree) -> str:
    if tree.origin is not None:  # its hands are derived from the histories
        return record_digest({"form": "hands", "histories": fingerprint(tree.origin.tree)})
    game, nodes = tree.hands_game, tree.nodes
    record = {
        "form": "hands",
        "names": [game.hands, game.action_names],
        "nodes": identity((nodes.parent, nodes.actor, nodes.action)),
        "chance": identity((game.deals, game.board, game.possible)),
        "ends": identity(game.ends),
        "constant": game.constant,
    }
    return record_digest(record)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Differences between two records, one line each, with names as in tables."""
    lines: list[str] = []
    for name in {**old, **new}:
        before, after = (record.get(name, DEFAULTS.get(name)) for record in (old, new))
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            changes = differences(before, after)
        elif isinstance(before, list | None) and isinstance(after, list | None):
            before, after = before or [], after or []  # items that are not requested have no line
            old_items = {label(item): item for item in before if item not in after}
            new_items = {label(item): item for item in after if item not in before}
            changes = [f"{name} removed" for name in old_items if name not in new_items]
            changes += [f"{name} added" for name in new_items if name not in old_items]
            changes += [f"{name} {_change(old_items[name])}" for name in old_items if name in new_items]
            changes = changes or ["in another order"]
        else:
            changes = [f"{label(before)} before, {label(after)} now"]
        lines += [f"{name}: {line}" for line in changes]
    return lines


def _change(record: Any) -> str:
    """Description of a change in an object whose name is unchanged."""
    if f'"{FINGERPRINT}"' in json.dumps(record):
        return "has changed: its folder now contains another network"
    return "has changed"


def label(item: Any) -> str:
    """Name in tables of an item of a record, such as a gadget or prior converted by `identity`."""
    if isinstance(item, list):
        return ", ".join(map(label, item))
    if not isinstance(item, Mapping):
        return "none" if item is None else f"{item:g}" if isinstance(item, float) else str(item)
    if "digest" in item:
        return f"array {item['digest']}"
    module, _, kind = str(item.get("class")).rpartition(".")
    path = f"{module}:{kind}"
    defaults = identity(find({path: path}, path, "kind")()) if path in KINDS else {}
    words = [str(item.get("name") or KINDS.get(path, kind))]
    for field, entry in item.items():
        if field == "prior" and label(entry) != "none":
            words.append(f"{label(entry)} prior, epsilon {label(item.get('epsilon'))}")
        elif field not in ("class", "name", "prior", "epsilon", FINGERPRINT) and entry != defaults.get(field):
            words.append(f"{field} {label(entry)}")
    return ", ".join(words)
