"""Snakemake's own tests of executor plugins."""

from typing import Optional

import snakemake.common.tests
from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase

from snakemake_executor_plugin_pliant import ExecutorSettings


class TestWorkflows(snakemake.common.tests.TestWorkflowsLocalStorageBase):
    __test__ = True

    def get_executor(self) -> str:
        return "pliant"

    def get_executor_settings(self) -> Optional[ExecutorSettingsBase]:
        # The servers of `pliant up` count no memory.
        return ExecutorSettings(without_mem=True)
