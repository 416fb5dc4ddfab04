//! The field rules of messages.
