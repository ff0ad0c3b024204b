"""Pliant, a metascheduler for federations of clusters, in Python.

Simulations of scheduling on one cluster or on many, with every policy that ``pliant simulate`` has::

    import pliant

    run = pliant.simulate(pliant.read_swf("KTH-SP2.swf"), procs=100, batch="cbf")
    run.summary["mean_wait_s"]
    run.jobs.to_pandas()

Times are whole seconds. Tables offer the Arrow PyCapsule interface: polars and pyarrow take them without a copy, DuckDB reads them in place.
"""

from . import _pliant

# Names of the native part. Types of all names are in `__init__.pyi`.
_NATIVE = (
    "Campaign",
    "Candidates",
    "Estimate",
    "Estimates",
    "Exit",
    "ExplorationResult",
    "Instance",
    "Job",
    "Launch",
    "LaunchTask",
    "Offer",
    "Offers",
    "Platform",
    "Queue",
    "Refusal",
    "ResultFile",
    "Results",
    "Run",
    "Sizes",
    "SweepResult",
    "Table",
    "WaitingJob",
    "Workload",
    "__version__",
)
# Modules with their names. A module is imported when one of its names is first used: those of clients and executors import more of the
# standard library than a whole simulation takes.
_MODULES = {
    "async_client": ("AsyncClient",),
    "campaigns": ("CampaignRun",),
    "client": ("Client",),
    "errors": (
        "DeniedError",
        "FileError",
        "InputError",
        "InternalError",
        "JobFailedError",
        "LaunchFailedError",
        "LaunchUnknownError",
        "NotFoundError",
        "NotRunError",
        "PliantError",
        "PolicyError",
        "RefusedError",
        "RefusedJobsWarning",
        "SubmissionUnknownError",
        "UnavailableError",
        "WaitTimeoutError",
    ),
    "executor": ("Executor",),
    "frames": ("Figure",),
    "policies": ("BatchPolicy", "HeuristicRule", "MappingRule", "QueueOrder", "SizingRule"),
    "simulation": ("generate", "read_swf", "read_workload", "simulate"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted([*_NATIVE, *_MODULE_OF])

globals().update((name, getattr(_pliant, name)) for name in _NATIVE)


def __getattr__(name):
    """A name of a module that is not imported yet, or such a module (PEP 562)."""
    module = _MODULE_OF.get(name, name)
    if module not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # As importlib.import_module, which is a module more.
    found = __import__(f"{__name__}.{module}", fromlist=[module])
    value = found if module == name else getattr(found, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_MODULE_OF, *_MODULES})
