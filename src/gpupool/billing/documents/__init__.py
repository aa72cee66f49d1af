"""Statements and invoices of a month: as data, XLSX, PDF and FOCUS, in English and Chinese."""
