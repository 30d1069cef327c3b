"""Fitted classifiers as ONNX graphs, for any runtime; needs the extra `onnx` (skl2onnx).

Graphs compute in float64 whatever the type of their input, so that decision values agree with ours
to the precision of the output: float64 if the input is float64, otherwise float32.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron import estimators
from momentron.errors import InputError, short
from momentron.rows.kernels import GaussianKernel, PolynomialKernel

__all__ = ["register_converters", "to_onnx"]


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
    for name in estimators.__all__:
        kind = getattr(estimators, name)
        update_registered_converter(kind, f"Momentron{name}", _set_outputs, _convert, parser=_parse)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """An operator for the model, with its two outputs."""
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    operator = scope.declare_local_operator(f"Momentron{type(model).__name__}", model)
    operator.inputs = inputs
    kinds = {"label": Int64TensorType(), "decision": guess_tensor_type(inputs[0].type)}
    for name, kind in kinds.items():
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _set_outputs(operator: Any) -> None:
    """The types and shapes of the outputs."""
    from skl2onnx.common import data_types as types

    classes, n = operator.raw_operator.classes_, operator.inputs[0].get_first_dimension()
    label = types.StringTensorType if classes.dtype.kind in "OUS" else types.Int64TensorType
    operator.outputs[0].type = label([n])
    operator.outputs[1].type.shape = [n] if classes.size == 2 else [n, classes.size]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Outputs X Wᵀ + b, or K(x, support vectors) αᵀ + b, and the labels that they name."""
    from onnx import TensorProto
    from skl2onnx.algebra import onnx_ops
    from skl2onnx.common.data_types import StringTensorType, guess_proto_type

    def node(kind: str, *inputs: Any, **attributes: Any) -> Any:
        """A node of ONNX's own operators; its inputs are nodes and arrays."""
        version = container.target_opset
        return getattr(onnx_ops, f"Onnx{kind}")(*inputs, op_version=version, **attributes)

    model, (label, decision) = operator.raw_operator, operator.outputs
    values = node("Cast", operator.inputs[0], to=TensorProto.DOUBLE)
    if hasattr(model, "coef_"):  # of kernel="linear", too
        weights = model.coef_
    else:
        values, weights = _kernel_values(node, model, values)
    products = node("MatMul", values, weights.T.copy())
    outputs = node("Add", products, np.asarray(model.intercept_, float))
    if model.classes_.size == 2:
        outputs = node("Reshape", outputs, np.array([-1]))
        codes = node("Cast", node("Greater", outputs, np.array([0.0])), to=TensorProto.INT64)
    else:
        codes = node("ArgMax", outputs, axis=1, keepdims=0)
    is_text = isinstance(label.type, StringTensorType)
    names = model.classes_.astype(str if is_text else np.int64)
    kind = guess_proto_type(decision.type)
    node("Gather", names, codes, axis=0, output_names=[label]).add_to(scope, container)
    node("Cast", outputs, to=kind, output_names=[decision]).add_to(scope, container)


def _kernel_values(node: Any, model: Any, X: Any) -> tuple[Any, np.ndarray]:
    """(K(x, v) for all rows and support vectors, their coefficients)."""
    kernel, dual = model._kernel, model.dual_coef_
    if kernel is None or not dual.size:  # precomputed, with a value for every row; or w = 0
        whole = np.zeros((dual.shape[0], model.n_features_in_))
        whole[:, model.support_] = dual
        return X, whole
    vectors = model.support_vectors_
    vectors = (vectors.toarray() if sp.issparse(vectors) else np.asarray(vectors)).astype(float)
    if type(kernel) is GaussianKernel:
        return _gaussian(node, kernel.gamma, X, vectors), dual
    if type(kernel) is PolynomialKernel:
        # γ goes into the vectors: runtimes fuse a product with a number in single precision
        products = node("MatMul", X, kernel.gamma * vectors.T)
        moved = node("Add", products, np.array([float(kernel.coef0)]))
        return node("Pow", moved, np.array([float(kernel.degree)])), dual
    raise InputError(
        f"{short(kernel)} has no ONNX graph; supported kernels: 'linear', 'rbf', 'poly' and "
        "'precomputed'"
    )


def _gaussian(node: Any, gamma: float, X: Any, vectors: np.ndarray) -> Any:
    """exp(−γ‖x − v‖²), seen from the mean of the support vectors, where fewer digits cancel."""
    centre = vectors.mean(axis=0)
    vectors = vectors - centre
    moved = node("Sub", X, centre)
    products = node("MatMul", moved, -2.0 * vectors.T)
    squares = node("MatMul", node("Mul", moved, moved), np.ones((vectors.shape[1], 1)))
    own = np.einsum("ij,ij->i", vectors, vectors)
    distances = node("Add", node("Add", products, squares), own)
    return node("Exp", node("Mul", distances, np.array([-gamma])))
