//! What goes wrong in a cluster, with the whole controller, a real API server, a real Envoy and real backends: what is
//! healthy has traffic all the time and loses no request, statuses tell what is wrong, and nothing has to be restarted.

#[path = "faults_in_a_cluster/ads.rs"]
mod ads;
#[path = "faults_in_a_cluster/confined.rs"]
mod confined;
#[path = "faults_in_a_cluster/freeze.rs"]
mod freeze;
#[path = "faults_in_a_cluster/input.rs"]
mod input;
#[path = "faults_in_a_cluster/judged.rs"]
mod judged;
#[path = "faults_in_a_cluster/objects.rs"]
mod objects;
#[path = "faults_in_a_cluster/quarantine.rs"]
mod quarantine;
#[path = "faults_in_a_cluster/release.rs"]
mod release;
#[path = "faults_in_a_cluster/replicas.rs"]
mod replicas;
#[path = "faults_in_a_cluster/server.rs"]
mod server;
#[path = "faults_in_a_cluster/storm.rs"]
mod storm;
#[path = "faults_in_a_cluster/switch.rs"]
mod switch;
#[path = "faults_in_a_cluster/traffic.rs"]
mod traffic;
#[path = "faults_in_a_cluster/world.rs"]
mod world;
