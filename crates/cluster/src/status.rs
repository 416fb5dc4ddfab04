//! Writes statuses to their objects.
