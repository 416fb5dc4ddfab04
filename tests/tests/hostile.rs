//! One tenant against another, and against the controller: each test is an attack that a claim of `SECURITY.md` answers.

#[path = "hostile/auth.rs"]
mod auth;
#[path = "hostile/body.rs"]
mod body;
#[path = "hostile/certificates.rs"]
mod certificates;
#[path = "hostile/circles.rs"]
mod circles;
#[path = "hostile/consent.rs"]
mod consent;
#[path = "hostile/controllers.rs"]
mod controllers;
#[path = "hostile/crashes.rs"]
mod crashes;
#[path = "hostile/credentials.rs"]
mod credentials;
#[path = "in_a_cluster/world.rs"]
#[allow(dead_code, reason = "the tests of what is deployed use all of it")]
mod deployed;
#[path = "hostile/estate.rs"]
mod estate;
#[path = "hostile/explain.rs"]
mod explain;
#[path = "hostile/explained.rs"]
mod explained;
#[path = "hostile/floods.rs"]
mod floods;
#[path = "hostile/frames.rs"]
mod frames;
#[path = "hostile/grants.rs"]
mod grants;
#[path = "hostile/leases.rs"]
mod leases;
#[path = "hostile/listener_sets.rs"]
mod listener_sets;
#[path = "bad_input/manifests.rs"]
#[allow(dead_code, reason = "the tests of bad input use all of them")]
mod manifests;
#[path = "xds_security/mount.rs"]
mod mount;
#[path = "hostile/names.rs"]
mod names;
#[path = "faults_in_a_cluster/objects.rs"]
#[allow(dead_code, reason = "the tests of faults in a cluster use all of them")]
mod objects;
#[path = "hostile/panics.rs"]
mod panics;
#[path = "hostile/parameters.rs"]
mod parameters;
#[path = "hostile/placement.rs"]
mod placement;
#[path = "hostile/policies.rs"]
mod policies;
#[path = "in_a_cluster/proxy.rs"]
mod proxy;
#[path = "hostile/regexes.rs"]
mod regexes;
#[path = "hostile/secrets.rs"]
mod secrets;
#[path = "hostile/servers.rs"]
mod servers;
#[path = "hostile/sessions.rs"]
mod sessions;
#[path = "hostile/sni.rs"]
mod sni;
#[path = "bad_input/stage.rs"]
#[allow(dead_code, reason = "the tests of bad input use all of it")]
mod stage;
#[path = "hostile/tenant.rs"]
mod tenant;
#[path = "faults_in_a_cluster/traffic.rs"]
mod traffic;
#[path = "hostile/trees.rs"]
mod trees;
#[path = "hostile/watches.rs"]
mod watches;
#[path = "hostile/wide.rs"]
mod wide;
#[path = "faults_in_a_cluster/world.rs"]
#[allow(dead_code, reason = "the tests of faults in a cluster use all of it")]
mod world;
