//! What a reader does who follows a page from top to bottom, in a copy of the examples.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, bail, ensure};
use portcullis_tests::api_server::program;
use portcullis_tests::echo::Echo;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports::free_port;
use portcullis_tests::process::{envoy_binary, portcullis_binary, root};
use portcullis_tests::wait::{TIMEOUT, eventually};

use crate::claim::{Answer, copied};
use crate::page::Block;

/// A command of a page.
#[derive(Debug)]
pub(crate) struct Command {
    /// Where it begins.
    pub(crate) line: usize,
    /// The command, its other lines and here-documents included.
    pub(crate) text: String,
    /// What the page says of it: the comment behind it, or what it prints.
    pub(crate) said: String,
    /// Whether it is shown with what it prints.
    shown: bool,
    /// Whether it stands beside commands for a cluster.
    beside_kubectl: bool,
}

impl Command {
    /// The commands of a block, if it has any.
    pub(crate) fn of(block: &Block<'_>) -> Vec<Self> {
        match block.language {
            "sh" => Self::typed(block),
            "console" => Self::shown(block),
            _ => Vec::new(),
        }
    }

    fn typed(block: &Block<'_>) -> Vec<Self> {
        let beside_kubectl = block.lines.iter().any(|(_, line)| line.starts_with("kubectl "));
        let mut commands = Vec::new();
        let mut lines = block.lines.iter();
        while let Some(&(line, first)) = lines.next() {
            if first.trim().is_empty() || first.starts_with('#') {
                continue;
            }
            let (text, said) = first.split_once(" # ").unwrap_or((first, ""));
            let mut text = text.trim_end().to_owned();
            let mut within = text.contains("<<EOF");
            while within || text.ends_with(['\\', '|']) || text.ends_with("&&") {
                let Some((_, next)) = lines.next() else { break };
                text.push('\n');
                text.push_str(next);
                within &= *next != "EOF";
            }
            commands.push(Self { line, text, said: said.trim().to_owned(), shown: false, beside_kubectl });
        }
        commands
    }

    fn shown(block: &Block<'_>) -> Vec<Self> {
        let mut commands: Vec<Self> = Vec::new();
        for &(line, text) in &block.lines {
            match (text.strip_prefix("$ "), commands.last_mut()) {
                (Some(text), _) => {
                    let text = text.split_once(" # ").map_or(text, |(text, _)| text).trim_end().to_owned();
                    commands.push(Self { line, text, said: String::new(), shown: true, beside_kubectl: false });
                }
                (None, Some(command)) => {
                    command.said.push_str(text);
                    command.said.push('\n');
                }
                (None, None) => {}
            }
        }
        commands
    }

    /// The program that it runs.
    fn program(&self) -> &str {
        let mut words = self.text.split_whitespace();
        words.find(|word| !word.contains('=')).unwrap_or_default()
    }

    fn words(&self) -> Vec<&str> {
        self.text.split_whitespace().collect()
    }
}

/// A checkout with free ports, and what runs in it.
pub(crate) struct Session {
    folder: tempfile::TempDir,
    ports: [(&'static str, u16); 4],
    backends: [Echo; 2],
    running: Option<Portcullis>,
    /// Who answered last.
    before: Option<String>,
}

impl Session {
    /// A checkout of its own.
    pub(crate) async fn new() -> Result<Self> {
        let anywhere: SocketAddr = ([127, 0, 0, 1], 0).into();
        let backends = [Echo::start("a", anywhere).await?, Echo::start("b", anywhere).await?];
        let [a, b] = [&backends[0], &backends[1]].map(|backend| backend.address().port());
        let ports = [("8080", free_port()?), ("8443", free_port()?), ("9001", a), ("9002", b)];
        let this = Self { folder: tempfile::tempdir()?, ports, backends, running: None, before: None };
        this.copy(Path::new("examples"))?;
        let here = this.folder.path();
        for folder in ["charts", "crds", "tests"] {
            std::os::unix::fs::symlink(root().join(folder), here.join(folder))?;
        }
        for folder in ["bin", "target/debug"] {
            std::fs::create_dir_all(here.join(folder))?;
            std::os::unix::fs::symlink(portcullis_binary()?, here.join(folder).join("portcullis"))?;
        }
        std::os::unix::fs::symlink(program("helm")?, here.join("bin/helm"))?;
        std::fs::create_dir_all(here.join(".tools/envoy/bin"))?;
        std::os::unix::fs::symlink(envoy_binary()?, here.join(".tools/envoy/bin/envoy"))?;
        Ok(this)
    }

    /// Copies a folder of the checkout, with ports that are free.
    fn copy(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir(self.folder.path().join(folder))?;
        for entry in std::fs::read_dir(root().join(folder))? {
            let from = entry?.path();
            let path = from.strip_prefix(root())?;
            if from.is_dir() {
                self.copy(path)?;
                continue;
            }
            let to = self.folder.path().join(path);
            std::fs::write(&to, self.adapted(&std::fs::read_to_string(&from)?))?;
            std::fs::set_permissions(&to, std::fs::metadata(&from)?.permissions())?;
        }
        Ok(())
    }

    /// Text of a page or of an example, with ports that are free and files of its own.
    fn adapted(&self, text: &str) -> String {
        let admin = self.running.as_ref().map(|portcullis| ("18001", portcullis.admin_address().port()));
        let ports = self.ports.into_iter().chain(admin).map(|(from, to)| (from, to.to_string()));
        let folder = ("/tmp/", format!("{}/", self.folder.path().display()));
        let replaced: Vec<_> = ports.chain([folder]).collect();
        // By way of marks, since what is put in may look like what is taken out.
        let mark = |index: usize| format!("\0{index}\0");
        let marked =
            replaced.iter().enumerate().fold(text.to_owned(), |text, (at, (from, _))| text.replace(from, &mark(at)));
        replaced.iter().enumerate().fold(marked, |text, (at, (_, to))| text.replace(&mark(at), to))
    }

    /// Does what a command says and holds it against what the page says. Gives whether it could be run here.
    pub(crate) async fn follow(&mut self, command: &Command) -> Result<bool> {
        match command.program() {
            "make" => return self.make(command).await,
            "curl" if command.beside_kubectl => return Ok(false),
            "curl" if !command.shown => self.ask(command).await?,
            "portcullis" | "target/debug/portcullis" if asks_a_cluster(command) => {
                self.is_well_formed(command).await?;
                return Ok(false);
            }
            "helm" => return self.helm(command).await,
            "kubectl" => return self.kubectl(command).await,
            "cargo" => {
                has_its_test(&command.text)?;
                return Ok(false);
            }
            "docker" | "kind" | "eval" | "sudo" => return Ok(false),
            program if program.starts_with("e2e/") => {
                ensure!(root().join(program).exists(), "there is no {program}");
                return Ok(false);
            }
            _ if command.shown => self.print(command).await?,
            "portcullis" | "target/debug/portcullis" | "sed" => self.exits(command).await?,
            program if program.starts_with("examples/") => self.exits(command).await?,
            program => bail!("nothing says what is to become of {program} in a page"),
        }
        Ok(true)
    }

    async fn make(&mut self, command: &Command) -> Result<bool> {
        has_its_target(&command.text)?;
        if command.words().get(1) != Some(&"run") {
            return Ok(false);
        }
        let (files, arguments) = command.text.split_once(" ARGUMENTS=").unwrap_or((&command.text, ""));
        let files = files.split_once("FILES=").map_or("examples/quickstart", |(_, files)| files);
        let arguments = self.adapted(arguments.trim_matches('"'));
        let folders: Vec<PathBuf> =
            files.trim_matches('"').split(' ').map(|folder| self.folder.path().join(folder)).collect();
        if let Some(mut before) = self.running.take() {
            before.check()?;
            before.terminate().await?;
        }
        let envoy = ["--envoy".to_owned(), envoy_binary()?.to_string_lossy().into_owned()];
        let arguments: Vec<_> = envoy.into_iter().chain(arguments.split_whitespace().map(str::to_owned)).collect();
        self.running = Some(Portcullis::start_on(&folders, &arguments).await?);
        Ok(true)
    }

    async fn ask(&mut self, command: &Command) -> Result<()> {
        ensure!(self.running.is_some(), "nothing runs that could be asked; `make run` first");
        ensure!(!command.said.is_empty(), "a comment has to say what comes of it");
        let asked = self.adapted(&command.text).replacen("curl ", "curl -sS -i --max-time 20 ", 1);
        let said = self.adapted(&command.said);
        if said.split(' ').next() == Some("refused") {
            let refused = eventually(TIMEOUT, async || {
                let output = self.bash(&asked).await?;
                ensure!(!output.status.success() && Answer::read(&text(&output)).is_err(), "{}", text(&output));
                Ok(())
            });
            return refused.await;
        }
        let receiver = copied(&said).and_then(|name| self.backends.iter().find(|backend| backend.name() == name));
        let answer = eventually(TIMEOUT, async || {
            let seen = receiver.map(Echo::total);
            let answer = Answer::read(&text(&self.bash(&asked).await?))?;
            answer.is(&said, self.before.as_deref())?;
            if let (Some(receiver), Some(seen)) = (receiver, seen) {
                let copy = async || if receiver.total() > seen { Ok(()) } else { Err("no copy came") };
                eventually(TIMEOUT, copy).await.map_err(anyhow::Error::msg)?;
            }
            Ok::<_, anyhow::Error>(answer)
        });
        let log = || self.running.as_ref().map(Portcullis::log_tail).unwrap_or_default();
        let answer = answer.await.with_context(log)?;
        self.before = answer.backend().map(str::to_owned);
        Ok(())
    }

    /// Runs a command that is shown with what it prints.
    async fn print(&self, command: &Command) -> Result<()> {
        let (script, expected) = (self.adapted(&command.text), self.adapted(&command.said));
        eventually(TIMEOUT, async || {
            let printed = text(&self.bash(&script).await?);
            ensure!(printed.trim_end() == expected.trim_end(), "prints\n{printed}");
            Ok(())
        })
        .await
    }

    /// Runs a command that ends well, or as the comment says: `exits 1`.
    async fn exits(&self, command: &Command) -> Result<()> {
        let output = self.bash(&self.adapted(&command.text)).await?;
        let expected = command.said.split_once("exits ").and_then(|(_, code)| code.split([',', ':', ' ']).next());
        let expected = expected.map(str::parse).transpose()?.unwrap_or(0);
        ensure!(output.status.code() == Some(expected), "{}\n{}", output.status, text(&output));
        Ok(())
    }

    /// A command that asks a cluster: that there is none is all that is wrong with it.
    async fn is_well_formed(&self, command: &Command) -> Result<()> {
        let output = self.bash(&format!("KUBECONFIG=/nonexistent {}", command.text)).await?;
        let printed = text(&output);
        ensure!(!printed.contains("Usage:") && printed.contains("/nonexistent"), "{printed}");
        Ok(())
    }

    /// Instead of installing a chart, prints what would be installed.
    async fn helm(&self, command: &Command) -> Result<bool> {
        let words = command.words();
        if !matches!(words.get(1), Some(&"install" | &"upgrade")) {
            return Ok(matches!(words.get(1), Some(&"template" | &"lint")) && self.exits(command).await.map(|()| true)?);
        }
        let only_with_a_cluster = ["--wait", "--create-namespace", "--take-ownership", "--reset-then-reuse-values"];
        let kept: Vec<_> = words[2..].iter().copied().filter(|word| !only_with_a_cluster.contains(word)).collect();
        let output = self.bash(&format!("helm template --kube-version 1.35.4 {}", kept.join(" "))).await?;
        ensure!(output.status.success(), "{}", text(&output));
        Ok(true)
    }

    /// Instead of applying what stands there, has it judged.
    async fn kubectl(&self, command: &Command) -> Result<bool> {
        let words = command.words();
        let Some(file) = words.iter().position(|word| *word == "-f").and_then(|at| words.get(at + 1)) else {
            return Ok(false);
        };
        if let Some((_, manifests)) = command.text.split_once("<<EOF\n") {
            let class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: portcullis}\n\
                         spec: {controllerName: portcullis.dev/gateway-controller}\n---\n";
            let path = self.folder.path().join("applied.yaml");
            std::fs::write(&path, class.to_owned() + manifests.trim_end_matches("EOF"))?;
            let output = self.bash("portcullis check -f applied.yaml").await?;
            ensure!(output.status.success(), "{}", text(&output));
            return Ok(true);
        }
        ensure!(file.contains("://") || self.folder.path().join(file).exists(), "there is no {file}");
        Ok(false)
    }

    async fn bash(&self, script: &str) -> Result<Output> {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = tokio::process::Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.folder.path().join("bin").display()))
            .env_remove("KUBECONFIG")
            .env("HELM_CACHE_HOME", self.folder.path())
            .env("HELM_CONFIG_HOME", self.folder.path())
            .env("HELM_DATA_HOME", self.folder.path())
            .kill_on_drop(true)
            .output();
        Ok(output.await?)
    }

    /// Ends what runs.
    pub(crate) async fn end(mut self) -> Result<()> {
        if let Some(mut running) = self.running.take() {
            running.check()?;
            running.terminate().await?;
        }
        Ok(())
    }
}

/// What a command prints.
fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Whether a command of ours needs a cluster: it has no manifests, and is none that needs nothing.
fn asks_a_cluster(command: &Command) -> bool {
    let words = command.words();
    let alone = matches!(words.get(1), Some(&"crds" | &"bootstrap"));
    !alone && !words.contains(&"-f")
}

/// Whether the tests that a command of cargo names are there.
pub(crate) fn has_its_test(command: &str) -> Result<()> {
    let known = std::fs::read_to_string(root().join("tests/Cargo.toml"))?;
    let after = |option: &str| command.split(option).nth(1).and_then(|rest| rest.split_whitespace().next());
    for named in command.split("--test ").skip(1) {
        let name = named.split_whitespace().next().context("--test what?")?;
        let of_crate = root().join("crates").join(after("-p ").unwrap_or_default()).join("tests");
        let is_there = known.contains(&format!("name = \"{name}\""))
            || of_crate.join(format!("{name}.rs")).exists()
            || of_crate.join(name).join("main.rs").exists();
        ensure!(is_there, "there is no test {name}");
    }
    Ok(())
}

/// Whether the target that a command of make names is there.
pub(crate) fn has_its_target(command: &str) -> Result<()> {
    let makefile = std::fs::read_to_string(root().join("Makefile"))?;
    let target = command.split_whitespace().nth(1).context("make what?")?;
    ensure!(makefile.contains(&format!("\n{target}:")), "there is no target {target}");
    Ok(())
}
