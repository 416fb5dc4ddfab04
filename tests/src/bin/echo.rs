//! Starts echo backends: `echo --name a --listen 127.0.0.1:9001 --name b --listen 127.0.0.1:9002`.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use clap::Parser;
use portcullis_tests::echo::Echo;

/// Backends that answer with what they received.
#[derive(Parser)]
struct Arguments {
    /// The name of a backend; one for every --listen, in their order.
    #[arg(long, required = true)]
    name: Vec<String>,
    /// The address of a backend.
    #[arg(long, required = true)]
    listen: Vec<SocketAddr>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.name.len() == arguments.listen.len(), "every --listen needs a --name");
    let mut backends = Vec::new();
    for (name, address) in arguments.name.iter().zip(arguments.listen) {
        let backend = Echo::start(name, address).await?;
        println!("backend {name} listens on http://{}", backend.address());
        backends.push(backend.serve_forever());
    }
    futures::future::join_all(backends).await;
    Ok(())
}
