"""ONNX: the steps of a policy as a graph. `pip install 'safedsr[onnx]'`."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from safedsr.errors import UserError
from safedsr.export.portable import Portable

OPSET, IR = 17, 8  # of 2022, so that older runtimes read the file


def need_onnx() -> Any:
    """The package `onnx`; without it, an error that says how to install it."""
    try:
        import onnx
        import onnxruntime  # noqa: F401  (it checks the file)
    except ImportError as error:
        raise UserError(f"{error}; ONNX files need it: pip install 'safedsr[onnx]', or --format npz") from None
    return onnx


class Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, array: Any, name: str | None = None) -> str:
        """The name of a constant."""
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def add(self, op: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Add a node with one output and return the name of that output."""
        out = out or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), [out], **attributes))
        return out


def _scale(g: Graph, x: str, middle: str, half: str, limit: str) -> str:
    x, lowest = g.add("Div", g.add("Sub", x, middle), half), g.add("Neg", limit)
    return g.add("Max", g.add("Min", x, limit), lowest)


def _waves(g: Graph, x: str, start: str, width: str, factor: str, shift: str, turns: str) -> str:
    x = g.add("Div", g.add("Sub", x, start), width)
    units = g.add("Add", g.add("Mul", factor, x), shift)
    turned = g.add("Mul", g.add("Unsqueeze", units, g.constant(np.array([2]))), turns)
    waves = g.add("Flatten", turned, axis=1)
    return g.add("Concat", x, g.add("Sin", waves), g.add("Cos", waves), axis=1)


def _split(g: Graph, x: str, actions: str) -> str:
    return g.add("Reshape", x, g.constant(np.array([0, int(g.constants[actions]), -1])))


def _unit(g: Graph, x: str) -> str:
    squares = g.add("ReduceSum", g.add("Mul", x, x), g.constant(np.array([-1])), keepdims=1)
    return g.add("Div", x, g.add("Sqrt", g.add("Max", squares, g.constant(np.float32(1e-24)))))


STEPS: Mapping[str, Callable[..., str]] = {
    "scale": _scale,
    "waves": _waves,
    "dense": lambda g, x, weight, bias: g.add("Add", g.add("MatMul", x, weight), bias),
    "relu": lambda g, x: g.add("Relu", x),
    "tanh": lambda g, x: g.add("Tanh", x),
    "each": lambda g, x: g.add("Unsqueeze", x, g.constant(np.array([1]))),
    "split": _split,
    "unit": _unit,
    "log_softmax": lambda g, x: g.add("LogSoftmax", x, axis=-1),
}


def make_model(policy: Portable, about: Mapping[str, Any]) -> Any:
    """The ONNX model: inputs observation, w_c and lam; outputs action, Q and K. The metadata is `about`, as JSON.

    w_c and lam have the trained values as defaults, so that a program may leave them out. A policy without cost weights
    has neither them nor K.
    """
    onnx = need_onnx()
    g, kinds = Graph(onnx), onnx.TensorProto
    for name, array in policy.arrays.items():
        g.constant(array, name)
    x = "observation"
    for name, *arrays in map(str.split, policy.steps):
        x = STEPS[name](g, x, *arrays)
    actions, observations = about["actions"], about["observations"]
    tensor = onnx.helper.make_tensor_value_info
    inputs = [tensor("observation", kinds.FLOAT, ["batch", observations])]
    outputs = [tensor("action", kinds.INT64, ["batch"]), tensor("Q", kinds.FLOAT, ["batch", actions])]
    if not policy.weights:
        score = g.add("Identity", x, out="Q")
    else:
        w_c, lam = policy.weights["w_c"], policy.weights["lam"]
        score = g.add("MatMul", x, g.constant(policy.weights["w_r"], "w_r"), out="Q")
        if len(lam):
            inputs += [tensor("w_c", kinds.FLOAT, w_c.shape), tensor("lam", kinds.FLOAT, lam.shape)]
            outputs.append(tensor("K", kinds.FLOAT, ["batch", actions, len(lam)]))
            g.constant(w_c, "w_c")
            k = g.add("MatMul", x, g.add("Transpose", "w_c", perm=[1, 0]), out="K")
            score = g.add("Sub", score, g.add("MatMul", k, g.constant(lam, "lam")))
    g.add("ArgMax", score, out="action", axis=1, keepdims=0)
    used = {name for node in g.nodes for name in node.input}
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in g.constants.items() if name in used]
    made = onnx.helper.make_graph(g.nodes, "policy", inputs, outputs, constants)
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(made, opset_imports=[opset], ir_version=IR, producer_name="safedsr")
    onnx.helper.set_model_props(model, {name: json.dumps(value, ensure_ascii=False) for name, value in about.items()})
    onnx.checker.check_model(model, full_check=True)
    return model
