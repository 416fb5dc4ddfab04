//! translate.
