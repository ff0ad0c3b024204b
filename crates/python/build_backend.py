"""Builds the wheel: the library, and the command `pliant`, which is a program of its own.

The standard hooks (PEP 517) are maturin's. Before a wheel is built, the command is built by cargo and put where maturin takes
scripts from. PLIANT_PROFILE names the profile of cargo for both: by default `python`, that of releases in which a panic becomes an
exception. PLIANT_COMMAND is a command that is built already, and PLIANT_FEATURES names the features of the library with which it shares
builds of dependencies (Cargo.toml): by default those of the command.
"""

import json
import os
import pathlib
import shutil
import subprocess

import maturin

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE / "data" / "scripts"
PROFILE = os.environ.get("PLIANT_PROFILE", "python")
FEATURES = os.environ.get("PLIANT_FEATURES", "built-with-command")

# Maturin expects it, also where only metadata is asked for.
SCRIPTS.mkdir(parents=True, exist_ok=True)


class UnsupportedOperation(Exception):
    """The exception of PEP 517 for a hook that a package does not support."""


def _build_command() -> None:
    """Puts the command into data/scripts."""
    if "PLIANT_COMMAND" in os.environ:
        shutil.copy2(os.environ["PLIANT_COMMAND"], SCRIPTS / "pliant")
        return
    # Both packages are named, so that dependencies have the features that the library needs, too.
    packages = ["--package", "pliant", "--package", "pliant-python", "--bin", "pliant", "--features", "pliant/parquet"]
    call = ["cargo", "build", "--profile", PROFILE, *packages, "--message-format", "json-render-diagnostics"]
    done = subprocess.run(call, cwd=HERE, stdout=subprocess.PIPE, check=True)
    built = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
    program = next(executable for executable in built if executable)
    shutil.copy2(program, SCRIPTS / "pliant")


def _arguments(settings):
    given = dict(settings or {})
    given.setdefault("build-args", f"--profile {PROFILE} --features {FEATURES}")
    return given


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _build_command()
    return maturin.build_wheel(wheel_directory, _arguments(config_settings), metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _build_command()
    return maturin.build_editable(wheel_directory, _arguments(config_settings), metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation(
        "Pliant has no source distribution: the package is built of the whole workspace. "
        "Build a wheel from a clone of the repository: pip wheel ./crates/python"
    )


get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
