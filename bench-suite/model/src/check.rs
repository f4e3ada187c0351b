//! Checks of a record beyond its types.
