"""Tangent kernels compared with torch.func and neural-tangents."""
