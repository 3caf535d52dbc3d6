"""The report: one HTML file that explains a model to people, opens offline and loads nothing."""

from fedspca.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
