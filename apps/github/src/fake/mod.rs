//! A GitHub of our own, for tests and for trying things out.
