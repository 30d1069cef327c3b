"""Tangent kernels beside torch.func and neural-tangents."""
