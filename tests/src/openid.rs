//! An OpenID provider, and a browser that logs in at it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::client::{Request, Response, Target, send};
use crate::ports;
use crate::process::{Process, root};

/// The provider's client, its secret, and somebody who is known there.
pub const CLIENT: &str = "web";
/// Its secret.
pub const SECRET: &str = "secret";
const USER: &str = "test-user@localhost";
const PASSWORD: &str = "verysecure";

/// A provider. It speaks HTTP without TLS, as behind something that ends it.
#[derive(Debug)]
pub struct OpenId {
    process: Process,
    port: u16,
    // Holds its log.
    _folder: tempfile::TempDir,
}

impl OpenId {
    /// Starts it, for people who come back to these URIs.
    pub async fn start(redirect_uris: &[&str]) -> Result<Self> {
        let program =
            std::env::var_os("PORTCULLIS_OIDC").map_or_else(|| root().join(".tools/oidc/bin/op"), PathBuf::from);
        ensure!(
            program.exists(),
            "no OpenID provider at {}: run `make oidc` or set PORTCULLIS_OIDC",
            program.display()
        );
        let port = ports::free_port()?;
        let folder = tempfile::Builder::new().prefix("openid-").tempdir()?;
        let arguments = [
            format!("PORT={port}"),
            format!("REDIRECT_URI={}", redirect_uris.join(",")),
            program.to_string_lossy().into_owned(),
        ];
        let log = folder.path().join("openid.log");
        let process = Process::start("openid", Path::new("/usr/bin/env"), arguments, log)?;
        let mut started = Self { process, port, _folder: folder };
        let target = started.target();
        let ready = started.process.wait_until(async || {
            let answer = send(&target, &Request::get("localhost", "/.well-known/openid-configuration")).await?;
            ensure!(answer.status == 200, "it answers {}", answer.status);
            Ok(())
        });
        ready.await?;
        Ok(started)
    }

    /// Where it listens.
    pub fn target(&self) -> Target {
        Target::local(self.port)
    }

    /// The port there.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Ends it.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }
}

/// Keeps the cookies of one host, also such as are for TLS alone: here nothing speaks it.
#[derive(Clone, Debug)]
pub struct Browser {
    /// The proxy.
    pub target: Target,
    /// The host that is asked.
    pub host: String,
    /// The cookies by name.
    pub cookies: BTreeMap<String, String>,
}

impl Browser {
    /// One without cookies.
    pub fn new(target: Target, host: &str) -> Self {
        Self { target, host: host.to_owned(), cookies: BTreeMap::new() }
    }

    /// A request with all cookies.
    pub fn request(&self, path: &str) -> Request {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::get(&self.host, path);
        if cookies.is_empty() { request } else { request.header("cookie", &cookies.join("; ")) }
    }

    /// Asks for a page, and keeps the cookies that come with it.
    pub async fn get(&mut self, path: &str) -> Result<Response> {
        let answer = send(&self.target, &self.request(path)).await?;
        for (_, cookie) in answer.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (pair, attributes) = cookie.split_once(';').unwrap_or((cookie, ""));
            let (name, value) = pair.split_once('=').context("a cookie without a value")?;
            // As RFC 6265bis has it, by which such a cookie is not removed either.
            if name.starts_with("__Host-") && !attributes.to_ascii_lowercase().contains("secure") {
                continue;
            }
            if attributes.contains("01 Jan 1970") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(answer)
    }

    /// Asks for a page, is sent to the provider, and logs in there: the path to which the provider sends it back.
    pub async fn log_in(&mut self, provider: &OpenId, path: &str) -> Result<String> {
        let sent = self.get(path).await?;
        ensure!(sent.status == 302, "{path} answers {} {}", sent.status, sent.body);
        let target = provider.target();
        let host = format!("localhost:{}", target.address.port());
        let asked = send(&target, &Request::get(&host, &path_of(&sent)?)).await?;
        let form = path_of(&asked)?;
        let (_, id) = form.split_once("authRequestID=").with_context(|| format!("{form} {}", asked.body))?;
        let mut entry =
            Request::get(&host, "/login/username").header("content-type", "application/x-www-form-urlencoded");
        "POST".clone_into(&mut entry.method);
        entry.body = format!("id={id}&username={}&password={PASSWORD}", USER.replace('@', "%40"));
        let entered = send(&target, &entry).await?;
        path_of(&send(&target, &Request::get(&host, &path_of(&entered)?)).await?)
    }
}

/// Path and query of where an answer leads.
fn path_of(answer: &Response) -> Result<String> {
    let location = answer.header("location").with_context(|| format!("{} {}", answer.status, answer.body))?;
    let Some((_, rest)) = location.split_once("://") else { return Ok(location) };
    let at = rest.find('/').context("no path")?;
    Ok(rest[at..].to_owned())
}
