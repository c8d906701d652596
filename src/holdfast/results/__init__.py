"""What `holdfast.audit`, `compare` and `check` return: records, comparisons and verdicts that print and convert."""

from holdfast.results.comparison import Comparison as Comparison
from holdfast.results.comparison import build_comparison as build_comparison
from holdfast.results.record import Record as Record
from holdfast.results.verdict import CheckResult as CheckResult
from holdfast.results.verdict import check as check
