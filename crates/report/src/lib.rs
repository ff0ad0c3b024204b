//! Pliant report.
