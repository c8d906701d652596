"""Work around audits: hardening, studies, monitored trainings, reproductions of papers."""
