//! Portcullis and its parts at a real API server, which all of these share: each suite is a module, so that the server is
//! started once and the binary is linked once. Tests have a namespace and a controller name each. The attacks of
//! `hostile.rs` are a binary of their own.

mod api_server;
mod apply;
mod charts;
mod cli_in_a_cluster;
mod faults_in_a_cluster;
mod in_a_cluster;
mod lease;
mod login_seed;
mod statuses;
mod watches;
mod xds_security;

// What several of them use, or other binaries too.
#[path = "judge/agent.rs"]
mod agent;
#[path = "charts/helm.rs"]
mod helm;
#[path = "xds_security/mount.rs"]
mod mount;
#[path = "in_a_cluster/proxy.rs"]
mod proxy;
#[path = "xds_security/tokens.rs"]
mod tokens;
