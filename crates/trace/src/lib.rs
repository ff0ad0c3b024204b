//! Pliant trace.
