"""Fitted classifiers as ONNX graphs, for any runtime; needs the extra `onnx` (skl2onnx).

Graphs compute in float64 whatever the type of their input, so that decision values agree with ours
to the type of the output: float32, or float64 where the input is.
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
from momentron.rows.kernels import GaussianKernel, Kernel, LinearKernel, PolynomialKernel

__all__ = ["register_converters", "to_onnx"]

LINEAR = (MaxMarginClassifier, MaxMarginClassifierCV)
KERNEL = (KernelMaxMarginClassifier, KernelMaxMarginClassifierCV)


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
        Of `skl2onnx.to_onnx`, such as `target_opset`.

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
    """Make `skl2onnx` know our classifiers; `to_onnx` does so itself."""
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise ImportError('ONNX graphs need skl2onnx: pip install "momentron[onnx]"') from None
    for kinds, convert in ((LINEAR, _convert_linear), (KERNEL, _convert_kernel)):
        for kind in kinds:
            update_registered_converter(
                kind, f"Momentron{kind.__name__}", _set_outputs, convert, parser=_parse
            )


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
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )

    model, given = operator.raw_operator, operator.inputs[0].type
    n, k = given.shape[0] if given.shape else None, model.classes_.size
    is_text = model.classes_.dtype.kind in "OUS"
    is_double = isinstance(given, DoubleTensorType)
    operator.outputs[0].type = (StringTensorType if is_text else Int64TensorType)([n])
    shape = [n] if k == 2 else [n, k]
    operator.outputs[1].type = (DoubleTensorType if is_double else FloatTensorType)(shape)


class Graph:
    """Nodes of a graph under construction: each method adds one and returns its output's name."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """A node of ONNX's own operators."""
        output = output or self.scope.get_unique_variable_name(kind.lower())
        name = self.scope.get_unique_operator_name(kind)
        self.container.add_node(kind, list(inputs), [output], name=name, **attributes)
        return output

    def constant(self, value: Any) -> str:
        """A constant: float64, integers or text, as the array is."""
        from onnx import TensorProto

        array = np.asarray(value)
        kinds = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64}
        kind = kinds.get(array.dtype.kind, TensorProto.STRING)
        flat = array.ravel().tolist()
        if kind == TensorProto.STRING:
            flat = [str(label).encode() for label in flat]
        name = self.scope.get_unique_variable_name("constant")
        self.container.add_initializer(name, kind, list(array.shape), flat)
        return name

    def cast(self, name: str, kind: int, output: str | None = None) -> str:
        """Another type."""
        return self.node("Cast", name, output=output, to=kind)


def _convert_linear(scope: Any, operator: Any, container: Any) -> None:
    """Outputs X Wᵀ + b."""
    graph, model = Graph(scope, container), operator.raw_operator
    X = _input(graph, operator)
    _finish(graph, operator, graph.node("MatMul", X, graph.constant(model.coef_.T.copy())))


def _convert_kernel(scope: Any, operator: Any, container: Any) -> None:
    """Outputs K(x, support vectors) αᵀ + b."""
    graph, model = Graph(scope, container), operator.raw_operator
    X, dual = _input(graph, operator), model.dual_coef_
    kernel = model._kernel
    if model.support_.size == 0:  # w = 0: any values do
        values, dual = X, np.zeros((dual.shape[0], model.n_features_in_))
    elif kernel is None:  # precomputed: the values of all rows of the fit are given
        whole = np.zeros((dual.shape[0], model.shape_fit_[1]))
        whole[:, model.support_] = dual
        values, dual = X, whole
    else:
        vectors = model.support_vectors_
        vectors = vectors.toarray() if sp.issparse(vectors) else np.asarray(vectors)
        values = _kernel_values(graph, kernel, X, vectors.astype(np.float64))
    _finish(graph, operator, graph.node("MatMul", values, graph.constant(dual.T.copy())))


def _kernel_values(graph: Graph, kernel: Kernel, X: str, vectors: np.ndarray) -> str:
    """K(x, v) for all rows and support vectors."""
    if type(kernel) is GaussianKernel:
        return _gaussian(graph, kernel.gamma, X, vectors)
    if type(kernel) is LinearKernel:
        return graph.node("MatMul", X, graph.constant(vectors.T.copy()))
    if type(kernel) is PolynomialKernel:
        # γ goes into the vectors: runtimes fuse a product with a number in single precision
        products = graph.node("MatMul", X, graph.constant(kernel.gamma * vectors.T))
        moved = graph.node("Add", products, graph.constant(np.array([float(kernel.coef0)])))
        return graph.node("Pow", moved, graph.constant(np.array([float(kernel.degree)])))
    raise InputError(
        f"{short(kernel)} has no ONNX graph; the kernels that have are 'linear', 'rbf', 'poly' and "
        "'precomputed'"
    )


def _gaussian(graph: Graph, gamma: float, X: str, vectors: np.ndarray) -> str:
    """exp(−γ‖x − v‖²), seen from the mean of the support vectors, where fewer digits cancel."""
    centre = vectors.mean(axis=0)
    vectors = vectors - centre
    moved = graph.node("Sub", X, graph.constant(centre))
    products = graph.node("MatMul", moved, graph.constant(-2.0 * vectors.T))
    ones = graph.constant(np.ones((vectors.shape[1], 1)))
    squares = graph.node("MatMul", graph.node("Mul", moved, moved), ones)
    own = graph.constant(np.einsum("ij,ij->i", vectors, vectors))
    distances = graph.node("Add", graph.node("Add", products, squares), own)
    return graph.node("Exp", graph.node("Mul", distances, graph.constant(np.array([-gamma]))))


def _input(graph: Graph, operator: Any) -> str:
    """The rows, in float64."""
    from onnx import TensorProto

    return graph.cast(operator.inputs[0].full_name, TensorProto.DOUBLE)


def _finish(graph: Graph, operator: Any, products: str) -> None:
    """Intercepts, the decision values, and the labels that they name."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import DoubleTensorType

    model = operator.raw_operator
    label, decision = (output.full_name for output in operator.outputs)
    outputs = graph.node("Add", products, graph.constant(np.asarray(model.intercept_, float)))
    if model.classes_.size == 2:
        outputs = graph.node("Reshape", outputs, graph.constant(np.array([-1])))
        is_second = graph.node("Greater", outputs, graph.constant(np.array([0.0])))
        codes = graph.cast(is_second, TensorProto.INT64)
    else:
        codes = graph.node("ArgMax", outputs, axis=1, keepdims=0)
    is_text = model.classes_.dtype.kind in "OUS"
    names = model.classes_ if is_text else model.classes_.astype(np.int64)
    graph.node("Gather", graph.constant(names), codes, output=label, axis=0)
    is_double = isinstance(operator.outputs[1].type, DoubleTensorType)
    graph.cast(outputs, TensorProto.DOUBLE if is_double else TensorProto.FLOAT, output=decision)
