//! What is said of a fragment.

use std::{fmt, sync::Arc};

use crate::outcome::Build;

/// What an Envoy says of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes it.
    Accepted,
    /// It does not.
    Refused(Arc<Refusal>),
    /// Nobody knows, for this reason. That is not remembered.
    Unknown(Arc<str>),
}

/// Why a fragment cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who says so.
    pub build: Build,
    /// How.
    pub how: How,
}

/// How a fragment was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// In these words: one line of 1 KiB at most. They may quote what the fragment holds.
    Words(String),
    /// By a crash, with this signal.
    Crash(i32),
    /// By using up its CPU time, or its time.
    Time,
    /// By using up its memory.
    Memory,
    /// By an end without a word of it, such as with an exit status that Envoy does not have. What it wrote may quote the fragment.
    End(String),
}

impl How {
    /// In one word, as metrics and records call it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Words(_) => "words",
            Self::Crash(_) => "crash",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::End(_) => "end",
        }
    }
}

/// `Envoy 1.40.0 refuses it: …`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let build = &self.build;
        match &self.how {
            How::Words(words) => write!(f, "{build} refuses it: {words}"),
            How::Crash(signal) => write!(f, "{build} crashes when it reads it (signal {signal})"),
            How::Time => write!(f, "{build} takes too much time to read it"),
            How::End(end) => write!(f, "{build} ends without a word when it reads it: {end}"),
            How::Memory => write!(f, "{build} takes too much memory to read it"),
        }
    }
}
