"""Snakemake's own tests of executor plugins, with a shared file system and without one."""

import sys
from typing import Optional

import snakemake.common.tests
from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase

from snakemake_executor_plugin_pliant import ExecutorSettings


class TestWorkflows(snakemake.common.tests.TestWorkflowsLocalStorageBase):
    __test__ = True

    def get_executor(self) -> str:
        return "pliant"

    def get_executor_settings(self) -> Optional[ExecutorSettingsBase]:
        # The servers of `pliant up` count no memory, and their jobs do not find this Python.
        return ExecutorSettings(without_mem=True, python=sys.executable)


class TestWorkflowsWithoutSharedFiles(TestWorkflows):
    """Pliant carries the files: there is no storage provider."""

    def get_assume_shared_fs(self) -> bool:
        return False
