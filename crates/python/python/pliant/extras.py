"""Packages that only some calls need: the extras of the package."""

from __future__ import annotations


def missing(package: str) -> ImportError:
    """The exception for a package that is not installed. The hint holds wherever `pliant` itself was installed from."""
    return ImportError(f"expected the package {package}, found none: pip install {package}", name=package)
