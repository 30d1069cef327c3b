"""Fitted classifiers as ONNX graphs, for any runtime; needs the extra `onnx` (skl2onnx).

Graphs compute in float64 whatever the type of their input, so that decision values agree with ours
to the precision of the output: float64 if the input is float64, otherwise float32.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError, short
from momentron.estimators import (
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    MaxMarginClassifierCV,
)
from momentron.rows.kernels import GaussianKernel, LinearKernel, PolynomialKernel

__all__ = ["register_converters", "to_onnx"]

CLASSIFIERS = (
    MaxMarginClassifier,
    MaxMarginClassifierCV,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
)


def to_onnx(model: Any, X: Any, **options: Any) -> Any:
    """A fitted classifier, or a pipeline that ends with one, as an ONNX model.

    Its outputs are `label` and `decision`, which is what `decision_function` gives: (n,) or (n, k).

    Parameters
    ----------
    model : estimator
        Kernels: "linear", "rbf", "poly" and "precomputed".
    X : array or data frame
        Rows of the type that the model will be given; one is enough.
    **options
        Passed to `skl2onnx.to_onnx`, such as `target_opset`.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> from momentron import MaxMarginClassifier
    >>> from momentron.onnx import to_onnx
    >>> import numpy as np
    >>> X = np.array([[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]], np.float32)
    >>> model = MaxMarginClassifier().fit(X, [1, 1, 0, 0])
    >>> graph = to_onnx(model, X[:1])  # doctest: +SKIP
    """
    register_converters()
    import skl2onnx

    return skl2onnx.to_onnx(model, X, **options)


def register_converters() -> None:
    """Register our classifiers with `skl2onnx`; `to_onnx` does so itself."""
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise ImportError('ONNX graphs need skl2onnx: pip install "momentron[onnx]"') from None
    for kind in CLASSIFIERS:
        name = f"Momentron{kind.__name__}"
        update_registered_converter(kind, name, _set_outputs, _convert, parser=_parse)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """An operator for the model, with its two outputs."""
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType

    operator = scope.declare_local_operator(f"Momentron{type(model).__name__}", model)
    operator.inputs = inputs
    for name, kind in (("label", Int64TensorType()), ("decision", FloatTensorType())):
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _set_outputs(operator: Any) -> None:
    """The types and shapes of the outputs."""
    from skl2onnx.common import data_types as types

    classes, given = operator.raw_operator.classes_, operator.inputs[0].type
    n = given.shape[0] if given.shape else None
    label = types.StringTensorType if _is_text(classes) else types.Int64TensorType
    is_double = isinstance(given, types.DoubleTensorType)
    decision = types.DoubleTensorType if is_double else types.FloatTensorType
    operator.outputs[0].type = label([n])
    operator.outputs[1].type = decision([n] if classes.size == 2 else [n, classes.size])


def _is_text(classes: np.ndarray) -> bool:
    return classes.dtype.kind in "OUS"


class Graph:
    """A graph under construction: inputs of its nodes are names of outputs, or arrays."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def node(self, kind: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """A node of ONNX's own operators; returns the name of its output."""
        names = [given if isinstance(given, str) else self._constant(given) for given in inputs]
        output = output or self.scope.get_unique_variable_name(kind.lower())
        name = self.scope.get_unique_operator_name(kind)
        self.container.add_node(kind, names, [output], name=name, **attributes)
        return output

    def _constant(self, array: np.ndarray) -> str:
        """float64, integers or text, as the array is."""
        from onnx import TensorProto

        kinds = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64}
        kind, flat = kinds.get(array.dtype.kind, TensorProto.STRING), array.ravel().tolist()
        if kind == TensorProto.STRING:
            flat = [str(label).encode() for label in flat]
        name = self.scope.get_unique_variable_name("constant")
        self.container.add_initializer(name, kind, list(array.shape), flat)
        return name


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Outputs X Wᵀ + b, or K(x, support vectors) αᵀ + b, and the labels that they name."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import DoubleTensorType

    graph, model = Graph(scope, container), operator.raw_operator
    label, decision = (output.full_name for output in operator.outputs)
    values = graph.node("Cast", operator.inputs[0].full_name, to=TensorProto.DOUBLE)
    if not hasattr(model, "support_vectors_"):
        weights = model.coef_
    else:
        values, weights = _kernel_values(graph, model, values)
    products = graph.node("MatMul", values, weights.T.copy())
    outputs = graph.node("Add", products, np.asarray(model.intercept_, float))
    if model.classes_.size == 2:
        outputs = graph.node("Reshape", outputs, np.array([-1]))
        is_second = graph.node("Greater", outputs, np.array([0.0]))
        codes = graph.node("Cast", is_second, to=TensorProto.INT64)
    else:
        codes = graph.node("ArgMax", outputs, axis=1, keepdims=0)
    names = model.classes_ if _is_text(model.classes_) else model.classes_.astype(np.int64)
    graph.node("Gather", names, codes, output=label, axis=0)
    is_double = isinstance(operator.outputs[1].type, DoubleTensorType)
    kind = TensorProto.DOUBLE if is_double else TensorProto.FLOAT
    graph.node("Cast", outputs, output=decision, to=kind)


def _kernel_values(graph: Graph, model: Any, X: str) -> tuple[str, np.ndarray]:
    """(K(x, v) for all rows and support vectors, their coefficients)."""
    kernel, dual = model._kernel, model.dual_coef_
    if model.support_.size == 0:  # w = 0: any values do
        return X, np.zeros((dual.shape[0], model.n_features_in_))
    if kernel is None:  # precomputed: the values of all rows of the fit are given
        whole = np.zeros((dual.shape[0], model.shape_fit_[1]))
        whole[:, model.support_] = dual
        return X, whole
    vectors = model.support_vectors_
    vectors = (vectors.toarray() if sp.issparse(vectors) else np.asarray(vectors)).astype(float)
    if type(kernel) is GaussianKernel:
        return _gaussian(graph, kernel.gamma, X, vectors), dual
    if type(kernel) is LinearKernel:
        return graph.node("MatMul", X, vectors.T.copy()), dual
    if type(kernel) is PolynomialKernel:
        # γ goes into the vectors: runtimes fuse a product with a number in single precision
        products = graph.node("MatMul", X, kernel.gamma * vectors.T)
        moved = graph.node("Add", products, np.array([float(kernel.coef0)]))
        return graph.node("Pow", moved, np.array([float(kernel.degree)])), dual
    raise InputError(
        f"{short(kernel)} has no ONNX graph; supported kernels: 'linear', 'rbf', 'poly' and "
        "'precomputed'"
    )


def _gaussian(graph: Graph, gamma: float, X: str, vectors: np.ndarray) -> str:
    """exp(−γ‖x − v‖²), seen from the mean of the support vectors, where fewer digits cancel."""
    centre = vectors.mean(axis=0)
    vectors = vectors - centre
    moved = graph.node("Sub", X, centre)
    products = graph.node("MatMul", moved, -2.0 * vectors.T)
    ones = np.ones((vectors.shape[1], 1))
    squares = graph.node("MatMul", graph.node("Mul", moved, moved), ones)
    own = np.einsum("ij,ij->i", vectors, vectors)
    distances = graph.node("Add", graph.node("Add", products, squares), own)
    return graph.node("Exp", graph.node("Mul", distances, np.array([-gamma])))
