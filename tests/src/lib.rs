//! What the tests need to send real traffic through a real Envoy that is controlled by Portcullis.
//!
//! The pieces, from the outside in: [`topic`] runs one folder of `tests/traffic`, [`expect`] compares one request
//! with what came back, [`portcullis`] and [`envoy`] start the two programs under test, [`echo`] stands behind them
//! and [`client`] in front. Nothing here knows how Portcullis translates: it is used from the outside, as a user would.

pub mod api_server;
pub mod calls;
pub mod certificates;
pub mod client;
pub mod collector;
pub mod echo;
pub mod envoy;
pub mod expect;
pub mod manifests;
pub mod objects;
pub mod openid;
pub mod oracle;
pub mod portcullis;
pub mod ports;
pub mod process;
pub mod provider;
pub mod ratelimit;
pub mod statuses;
pub mod topic;
pub mod wait;
