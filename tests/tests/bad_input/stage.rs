//! Portcullis and an Envoy with a healthy route, beside which things are broken.

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{self, Protocol, Request, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports;
use portcullis_tests::process::portcullis_binary;
use portcullis_tests::statuses::StatusExpectation;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use crate::manifests::{HEALTHY, backend, gateway, route, secret};

/// What nobody reads to its end, in bytes.
const LONGEST_MESSAGE: usize = 4096;

/// Portcullis and an Envoy with a healthy route over HTTP and HTTPS, and nothing to report.
pub(crate) struct Stage {
    /// The program.
    pub(crate) portcullis: Portcullis,
    envoy: Envoy,
    http: Target,
    https: Target,
    // Answers for as long as it lives.
    _echo: Echo,
    before: Vec<Value>,
    batches: usize,
}

/// One thing that `portcullis check` must say.
#[derive(Debug)]
pub(crate) struct Finding<'a> {
    /// How bad it is.
    pub(crate) severity: &'a str,
    /// `KIND NAMESPACE/NAME`; empty where it cannot be told.
    pub(crate) object: &'a str,
    /// The field; empty for the whole.
    pub(crate) field: &'a str,
    /// What stands in the file at the line and column that it names.
    pub(crate) at: &'a str,
    /// Parts of the message: the value, and what to do.
    pub(crate) words: &'a [&'a str],
}

impl Stage {
    /// Starts both, and waits until the healthy route is served.
    pub(crate) async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// The same with further arguments for Portcullis.
    pub(crate) async fn start_with(arguments: &[String]) -> Result<Self> {
        let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
        let (http, https) = (ports::free_port()?, ports::free_port()?);
        let (good, bad) = (certificate(HEALTHY)?, certificate("bad.example")?);
        let files = [
            ("a-gateway.yaml", gateway(http, https)),
            ("b-backend.yaml", backend(&echo)),
            ("c-good.yaml", secret("good", &good.certificate, &good.key)),
            ("c-bad.yaml", secret("bad", &bad.certificate, &bad.key)),
            ("d-healthy.yaml", route("healthy", HEALTHY, "/")),
        ];
        let files = files.map(|(name, content)| (name.to_owned(), content));
        let portcullis = Portcullis::start_with(&files, arguments).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        let (http, https) = (Target::local(http), over_tls(https, HEALTHY));
        let (before, batches) = (Vec::new(), 0);
        let mut stage = Self { portcullis, envoy, http, https, _echo: echo, before, batches };
        stage.healthy_serves().await?;
        stage.before = stage.healthy_hosts().await?;
        ensure!(stage.before.len() == 2, "not on both listeners: {:?}", stage.before);
        stage.reports(&[]).await?;
        Ok(stage)
    }

    /// Writes `bad.yaml`, and waits until it was taken in: until a route in a file written later is served.
    pub(crate) async fn write(&mut self, content: &str) -> Result<()> {
        self.portcullis.write("bad.yaml", content)?;
        self.batches += 1;
        let path = format!("/{}", self.batches);
        self.portcullis.write("later.yaml", &route("later", "later.example", &path))?;
        self.answers("later.example", &path, 200).await
    }

    /// Its HTTP listener.
    #[allow(dead_code, reason = "the attacks send requests of their own")]
    pub(crate) fn http(&self) -> &Target {
        &self.http
    }

    /// Its Envoy.
    #[allow(dead_code, reason = "the attacks look at what it counts")]
    pub(crate) fn envoy(&self) -> &Envoy {
        &self.envoy
    }

    /// A GET over HTTP is answered with this status.
    pub(crate) async fn answers(&self, host: &str, path: &str, status: u16) -> Result<()> {
        self.answers_to(&Request::get(host, path), status).await
    }

    /// The same for any request.
    pub(crate) async fn answers_to(&self, request: &Request, status: u16) -> Result<()> {
        // A debug build is a while with ten thousand routes.
        let answered = eventually(2 * TIMEOUT, async || {
            let response = client::send(&self.http, request).await?;
            let (host, path) = (&request.host, &request.path);
            ensure!(response.status == status, "{host}{path}: {} and not {status}: {}", response.status, response.body);
            Ok(())
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    /// Whether a host of an HTTPS listener is served: its certificate is shown, and its route answers.
    pub(crate) async fn answers_over_tls(&self, host: &str, served: bool) -> Result<()> {
        let target = over_tls(self.https.address.port(), host);
        let answered = eventually(TIMEOUT, async || {
            let response = client::send(&target, &Request::get(host, "/")).await;
            let answered = response.as_ref().is_ok_and(|response| response.status == 200);
            ensure!(answered == served && response.is_err() != served, "{host}: {response:?}");
            Ok(())
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    /// A connection to the healthy host that lasts.
    pub(crate) async fn healthy_connection(&self) -> Result<client::Connection> {
        client::Connection::open(&self.https).await
    }

    /// The healthy route goes on: over both listeners, without a change in Envoy; nothing panicked or was refused.
    pub(crate) async fn is_unharmed(&mut self) -> Result<()> {
        self.portcullis.check()?;
        self.others_are_unharmed().await
    }

    /// The same whatever panicked.
    pub(crate) async fn others_are_unharmed(&mut self) -> Result<()> {
        self.healthy_serves().await?;
        let after = self.healthy_hosts().await?;
        ensure!(after == self.before, "the healthy route changed:\n{:?}\n{after:?}", self.before);
        self.portcullis.was_never_refused().await?;
        self.envoy.check().await
    }

    async fn healthy_serves(&self) -> Result<()> {
        for target in [&self.http, &self.https] {
            let served = eventually(TIMEOUT, async || {
                let response = client::send(target, &Request::get(HEALTHY, "/")).await?;
                ensure!(response.status == 200, "{}", response.status);
                Ok(())
            });
            served.await.context("the healthy route")?;
        }
        Ok(())
    }

    /// The virtual hosts of the healthy route as Envoy has them.
    async fn healthy_hosts(&self) -> Result<Vec<Value>> {
        let dump = self.envoy.config_dump().await?;
        let configs = dump["configs"].as_array().context("no configs")?;
        let routes = configs.iter().filter_map(|section| section["dynamic_route_configs"].as_array()).flatten();
        let hosts = routes.filter_map(|config| config["route_config"]["virtual_hosts"].as_array()).flatten();
        Ok(hosts.filter(|host| host["name"] == HEALTHY).cloned().collect())
    }

    /// Runs `portcullis check` on the folder. It must tell these findings, and no others.
    pub(crate) async fn reports(&self, expected: &[Finding<'_>]) -> Result<()> {
        let (code, text) = self.check("json").await?;
        let report: Value = serde_json::from_str(&text)?;
        let found = report["problems"].as_array().context("no problems")?;
        let failing = found.iter().any(|problem| problem["severity"] != "warning");
        ensure!(code == Some(i32::from(failing)), "exit code {code:?} for\n{text}");
        for finding in expected {
            ensure!(found.iter().any(|problem| finding.is(problem)), "missing {finding:?} in\n{text}");
        }
        ensure!(found.len() == expected.len(), "more than {expected:?}:\n{text}");
        for problem in found {
            // Whatever stands in an object, its report can be read.
            let message = problem["message"].as_str().unwrap_or_default();
            ensure!(message.len() < LONGEST_MESSAGE && !message.contains(char::is_control), "unreadable: {message:?}");
        }
        Ok(())
    }

    /// Exit code and output of `portcullis check`.
    pub(crate) async fn check(&self, format: &str) -> Result<(Option<i32>, String)> {
        let mut command = tokio::process::Command::new(portcullis_binary()?);
        let output = command.args(["check", "-o", format, "-f"]).arg(self.portcullis.files()).output().await?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(errors.is_empty(), "check printed errors: {errors}");
        Ok((output.status.code(), String::from_utf8(output.stdout)?))
    }

    /// The log of the running program tells these words.
    pub(crate) async fn logs(&self, words: &str) -> Result<()> {
        let told = eventually(TIMEOUT, async || {
            ensure!(self.portcullis.log().contains(words), "nothing tells {words:?}");
            Ok(())
        });
        told.await.with_context(|| self.portcullis.log_tail())
    }

    /// A status, or a part of one, says this.
    pub(crate) async fn status(&self, expectation: &str) -> Result<()> {
        let expectation: StatusExpectation = serde_saphyr::from_str(expectation)?;
        eventually(TIMEOUT, async || expectation.check(&self.portcullis.snapshot().await?)).await
    }
}

impl Finding<'_> {
    fn is(&self, problem: &Value) -> bool {
        let of = |pointer| problem.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let object = match of("/object/kind") {
            "" => String::new(),
            kind => format!("{kind} {}/{}", of("/object/metadata/namespace"), of("/object/metadata/name")),
        };
        of("/severity") == self.severity
            && object == self.object
            && of("/field") == self.field
            && self.words.iter().all(|words| of("/message").contains(words))
            && text_at(problem).is_some_and(|text| text.starts_with(self.at))
    }
}

/// The text of the file from the place on that a problem names.
fn text_at(problem: &Value) -> Option<String> {
    let text = std::fs::read_to_string(problem["file"].as_str()?).ok()?;
    let place = |name: &str| usize::try_from(problem[name].as_u64()?.checked_sub(1)?).ok();
    let line = text.lines().nth(place("line")?)?;
    Some(line.chars().skip(place("column")?).collect())
}

fn over_tls(port: u16, host: &str) -> Target {
    let tls = Tls::to(host);
    Target { address: ([127, 0, 0, 1], port).into(), protocol: Protocol::Http1, tls: Some(tls) }
}

/// A new certificate for a host.
pub(crate) fn certificate(host: &str) -> Result<Certificate> {
    Certificate::new(&[host.to_owned()], KeyKind::Ecdsa)
}
