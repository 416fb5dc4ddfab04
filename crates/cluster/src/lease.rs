//! Which replica leads.
