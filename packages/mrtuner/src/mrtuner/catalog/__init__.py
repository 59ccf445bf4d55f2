"""Data on PostgreSQL's configuration parameters, for majors 13 to 19."""

from mrtuner.catalog.load import parameter, parameters
from mrtuner.catalog.parameter import Parameter, Value
from mrtuner.catalog.version_changes import history
from mrtuner.inputs import MAJORS

__all__ = ["MAJORS", "Parameter", "Value", "history", "parameter", "parameters"]
