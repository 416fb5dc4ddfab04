//! Who a proxy is, and how it knows that this is the control plane.
//!
//! * [`tokens`] judges the tokens that proxies show, by asking the API server: [`tokens::TokenAuthenticator`] is what
//!   `xds::Config::authenticate` takes.
//! * [`ca`] decides what certificate the server shows and which CAs proxies trust, and when either changes;
//!   [`ca_controller`] reads and writes the Secret in which that is kept; [`files`] reads a user's own instead.
//!
//! * [`login_seed`] keeps what logins are proved by, which is nothing of a proxy's own.
//!
//! [`Trust`] is where the two before that put what they come to.

use std::sync::Arc;

use tokio::sync::watch;

pub mod ca;
pub mod ca_controller;
mod cache;
pub mod files;
mod issue;
pub mod login_seed;
pub mod tokens;

/// What the server shows, and what proxies need to believe it. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Trust {
    /// What the server shows. Its changes drop no stream.
    pub certificate: xds::Certificate,
    bundle: watch::Sender<Option<Arc<str>>>,
}

impl Default for Trust {
    fn default() -> Self {
        Self { certificate: xds::Certificate::new(), bundle: watch::Sender::new(None) }
    }
}

impl Trust {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The CA certificates that proxies shall trust, in PEM, now and later. It has to reach every proxy sooner than
    /// [`ca::RotationPolicy::propagation`].
    pub fn bundle(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.bundle.subscribe()
    }

    fn publish(&self, bundle: &str) {
        self.bundle.send_if_modified(|current| {
            let changed = current.as_deref() != Some(bundle);
            if changed {
                *current = Some(bundle.into());
            }
            changed
        });
    }
}
