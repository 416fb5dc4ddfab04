//! Watches of every kind that is read.
