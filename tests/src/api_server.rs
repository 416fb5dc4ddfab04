//! A real API server for one test or one test binary: etcd and kube-apiserver on loopback, without root.
//!
//! There is no controller manager and no node: no default `ServiceAccounts`, no garbage collection, no deletion of
//! namespaces, and pods are objects that nobody runs. RBAC is on, and tokens of `ServiceAccounts` are real.
//!
//! Most tests share one server ([`ApiServer::shared`]) and have a namespace each ([`ApiServer::namespace`]). Those with policies
//! of kgateway, or with objects that no schema would take, share another one ([`ApiServer::loose`]). Those that stop or freeze
//! theirs, or that have CRDs come and go, have one in turn ([`ApiServer::in_turn`], [`ApiServer::without_crds`],
//! [`ApiServer::with_standard_crds`]). A test for which none of them will do starts its own.
//!
//! Starting takes some seconds and 700 MB, and CRDs take longer to install than a server to start. So what etcd has once they
//! are there is copied for further servers. `PORTCULLIS_KEEP_LOGS=1` keeps the folder with the logs, and so does a panic.

mod clients;
mod guardian;
mod identity;
mod image;
mod middleman;
mod objects;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use self::clients::{Clients, client_for};
use self::guardian::Guardian;
use self::identity::{Authority, FILES};
use self::image::Image;
pub use self::middleman::{Exchange, Middleman, Verdict};
pub use self::objects::{Channel, gateway_api_folder, kgateway_crds, loose_crd};
pub use self::turn::Turn;
use crate::client::{self, Request, Target};
use crate::ports::free_port;
use crate::process::{Process, freeze, root, thaw};

/// What is started when somebody else takes a port between looking and listening.
const ATTEMPTS: usize = 3;

/// How long a start may take that takes some seconds on an idle machine.
const STARTING: Duration = Duration::from_mins(5);

/// Garbage is collected later than Go does by itself: a start takes a quarter less of a core, and 300 MB more.
const ENVIRONMENT: [(&str, &str); 1] = [("GOGC", "400")];

static SHARED: OnceCell<ApiServer> = OnceCell::const_new();
static LOOSE: OnceCell<ApiServer> = OnceCell::const_new();
static IMAGE: OnceCell<Image> = OnceCell::const_new();

/// A running etcd with its API server. Nothing of them is left when this is dropped.
#[derive(Debug)]
pub struct ApiServer {
    // First, since it ends the programs by their ids, which are theirs until their `Process` is dropped.
    guardian: Guardian,
    process: Option<Process>,
    etcd: Process,
    authority: Authority,
    arguments: Vec<String>,
    url: String,
    clients: Clients,
    namespaces: AtomicU32,
    files: AtomicU32,
}

impl ApiServer {
    /// The server that all tests of this binary share, with the CRDs of Gateway API's experimental channel and our own.
    /// It is started for the first who asks.
    pub async fn shared() -> Result<&'static Self> {
        SHARED.get_or_try_init(|| Self::with_crds(&[])).await
    }

    /// The same with CRDs of kgateway, where neither their schemas nor that of `DelegationPolicy` refuse anything: whatever
    /// a test says of these kinds is there for all that watch its namespace.
    pub async fn loose() -> Result<&'static Self> {
        let start = async || {
            let server = Self::with_crds(&[]).await?;
            let ours = loose_crd("gateway.portcullis.dev", "v1alpha1", "delegationpolicies", "DelegationPolicy");
            server.apply(&format!("{}\n---\n{ours}", kgateway_crds())).await?;
            anyhow::Ok(server)
        };
        LOOSE.get_or_try_init(start).await
    }

    /// A server of one's own with the CRDs that the shared one has, and with further arguments of kube-apiserver.
    pub async fn with_crds(arguments: &[&str]) -> Result<Self> {
        let mut first = None;
        let make = async || {
            let server = Self::start_with(arguments).await?;
            server.apply_crds(Channel::Experimental).await?;
            let image = Image::of(&server).await?;
            first = Some(server);
            anyhow::Ok(image)
        };
        let image = IMAGE.get_or_try_init(make).await?;
        match first {
            Some(server) => Ok(server),
            None => Self::start_from(Some(image), arguments).await,
        }
    }

    /// Starts a server of one's own and waits until it is ready. It has no CRDs.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// The same with further arguments of kube-apiserver.
    pub async fn start_with(arguments: &[&str]) -> Result<Self> {
        Self::start_from(None, arguments).await
    }

    async fn start_from(image: Option<&Image>, arguments: &[&str]) -> Result<Self> {
        let mut failures = Vec::new();
        while failures.len() < ATTEMPTS {
            match Self::try_start(image, arguments).await {
                Ok(server) => return Ok(server),
                Err(error) => {
                    let text = format!("{error:#}");
                    let collided = text.contains("address already in use");
                    failures.push(text);
                    if !collided {
                        break;
                    }
                }
            }
        }
        bail!("the API server does not start: {}", failures.join("\n"))
    }

    async fn try_start(image: Option<&Image>, arguments: &[&str]) -> Result<Self> {
        let guardian = Guardian::new()?;
        let folder = guardian.folder().to_owned();
        let authority = Authority::new()?;
        authority.write_server_files(&folder)?;
        if let Some(image) = image {
            image.copy_to(&etcd_data(&folder)).await?;
        }

        let etcd_target = Target::local(free_port()?);
        let etcd_url = format!("http://{}", etcd_target.address);
        let log = folder.join("etcd.log");
        let mut etcd =
            Process::start_with("etcd", &program("etcd")?, etcd_arguments(&folder, &etcd_url), ENVIRONMENT, log)?;
        guardian.watch("etcd", etcd.id().context("etcd has no id")?)?;
        etcd.wait_until_within(STARTING, async || {
            let ready = client::send(&etcd_target, &Request::get("localhost", "/readyz")).await?;
            ensure!(ready.status == 200, "etcd is not ready: {}", ready.body);
            Ok(())
        })
        .await?;

        let port = free_port()?;
        let url = format!("https://127.0.0.1:{port}");
        let mut all = api_server_arguments(&folder, &etcd_url, port);
        all.extend(arguments.iter().map(ToString::to_string));
        std::fs::write(folder.join("admin.kubeconfig"), authority.admin_kubeconfig(&url)?)?;
        let mut server = Self {
            guardian,
            process: None,
            etcd,
            authority,
            arguments: all,
            url,
            clients: Clients::default(),
            namespaces: AtomicU32::new(0),
            files: AtomicU32::new(0),
        };
        server.launch().await?;
        Ok(server)
    }

    async fn launch(&mut self) -> Result<()> {
        self.clients.forget();
        let log = self.folder().join("kube-apiserver.log");
        if log.exists() {
            std::fs::rename(&log, log.with_extension("log.old"))?;
        }
        let mut process =
            Process::start_with("kube-apiserver", &program("kube-apiserver")?, &self.arguments, ENVIRONMENT, log)?;
        self.guardian.watch("kube-apiserver", process.id().context("kube-apiserver has no id")?)?;
        self.wait_until_ready(&mut process).await?;
        self.process = Some(process);
        Ok(())
    }

    async fn wait_until_ready(&self, process: &mut Process) -> Result<()> {
        let client = self.client().await?;
        let ready = process.wait_until_within(STARTING, async || {
            let ready = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            ensure!(ready == "ok", "not ready: {ready}");
            // Made by the server itself once it is ready.
            Api::<Namespace>::all(client.clone()).get("default").await?;
            Ok(())
        });
        ready.await
    }

    /// Asks the API server to end and waits until it has. etcd stays.
    pub async fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the API server does not run")?;
        process.terminate().await?;
        self.guardian.forget("kube-apiserver");
        Ok(())
    }

    /// Ends the API server without asking it. etcd stays.
    pub async fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the API server does not run")?;
        process.kill().await?;
        self.guardian.forget("kube-apiserver");
        Ok(())
    }

    /// Starts the API server again at the same address, with what etcd has, and waits until it is ready. One that still
    /// runs is stopped before.
    pub async fn restart(&mut self) -> Result<()> {
        if self.process.is_some() {
            self.stop().await?;
        }
        self.launch().await
    }

    /// Freezes the API server: connections stay open and nothing is answered any more.
    pub async fn freeze(&self) -> Result<()> {
        freeze(self.api_server_id()?).await
    }

    /// Lets a frozen API server go on.
    pub async fn thaw(&self) -> Result<()> {
        thaw(self.api_server_id()?).await
    }

    /// Has the API server run, whether it was frozen, or stopped, or killed, or has ended by itself.
    async fn recover(&mut self) -> Result<()> {
        let running = self.process.take().and_then(|mut process| process.check_alive().is_ok().then_some(process));
        let Some(mut process) = running else { return self.launch().await };
        thaw(process.id().context("the API server has ended")?).await?;
        self.wait_until_ready(&mut process).await?;
        self.process = Some(process);
        Ok(())
    }

    fn api_server_id(&self) -> Result<u32> {
        self.process.as_ref().and_then(Process::id).context("the API server does not run")
    }

    /// Where the API server listens, `https://127.0.0.1:PORT`. Neither stopping nor restarting changes it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder of certificates, kubeconfigs and logs. It goes with the server.
    pub fn folder(&self) -> &Path {
        self.guardian.folder()
    }

    /// The kubeconfig of an administrator, who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("admin.kubeconfig")
    }

    /// A client of that administrator, which belongs to the runtime of the test that asks: each time the same one until the
    /// API server is started again.
    pub async fn client(&self) -> Result<Client> {
        self.clients.get(&self.kubeconfig()).await
    }

    /// A token of a `ServiceAccount` that exists. Without audiences it is for the API server itself.
    pub async fn token(&self, namespace: &str, service_account: &str, audiences: &[&str]) -> Result<String> {
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: audiences.iter().map(ToString::to_string).collect(),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let answer = accounts.create_token_request(service_account, &PostParams::default(), &request).await?;
        Ok(answer.status.context("no token")?.token)
    }

    /// The kubeconfig of a `ServiceAccount` that exists, who may do what RBAC says.
    pub async fn kubeconfig_of(&self, namespace: &str, service_account: &str) -> Result<PathBuf> {
        self.kubeconfig_at(&self.url, namespace, service_account).await
    }

    /// The same by way of a [`Middleman`].
    pub async fn kubeconfig_by(&self, way: &Middleman, namespace: &str, service_account: &str) -> Result<PathBuf> {
        self.kubeconfig_at(&way.url(), namespace, service_account).await
    }

    async fn kubeconfig_at(&self, url: &str, namespace: &str, service_account: &str) -> Result<PathBuf> {
        let token = self.token(namespace, service_account, &[]).await?;
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let path = self.folder().join(format!("{service_account}-{number}.kubeconfig"));
        std::fs::write(&path, self.authority.token_kubeconfig(url, &token)?)?;
        Ok(path)
    }

    /// A new client of such a `ServiceAccount`.
    pub async fn client_of(&self, namespace: &str, service_account: &str) -> Result<Client> {
        client_for(&self.kubeconfig_of(namespace, service_account).await?).await
    }

    /// A new namespace that no other test of this server has.
    pub async fn namespace(&self) -> Result<String> {
        let name = format!("test-{}", self.namespaces.fetch_add(1, Ordering::Relaxed));
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        Api::all(self.client().await?).create(&PostParams::default(), &namespace).await?;
        Ok(name)
    }

    /// The last lines that the API server has printed since it was started last.
    pub fn log_tail(&self) -> String {
        self.process.as_ref().map_or_else(|| "the API server does not run".to_owned(), Process::log_tail)
    }
}

/// A program that `make kubernetes` builds: in `PORTCULLIS_KUBERNETES` if set, else where it puts them.
pub fn program(name: &str) -> Result<PathBuf> {
    let folder =
        std::env::var_os("PORTCULLIS_KUBERNETES").map_or_else(|| root().join(".tools/kubernetes/bin"), PathBuf::from);
    let path = folder.join(name);
    ensure!(path.exists(), "no {}: run `make kubernetes`", path.display());
    Ok(path)
}

/// What etcd has, in the folder of a server.
fn etcd_data(folder: &Path) -> PathBuf {
    folder.join("etcd")
}

fn etcd_arguments(folder: &Path, url: &str) -> Vec<String> {
    let data = etcd_data(folder);
    let arguments = [
        ("--data-dir", data.to_string_lossy().as_ref()),
        ("--listen-client-urls", url),
        ("--advertise-client-urls", url),
        ("--listen-peer-urls", "http://127.0.0.1:0"),
        ("--log-level", "warn"),
    ]
    .map(|(name, value)| format!("{name}={value}"));
    // The machine is not what is tested.
    arguments.into_iter().chain(["--unsafe-no-fsync".to_owned()]).collect()
}

fn api_server_arguments(folder: &Path, etcd: &str, port: u16) -> Vec<String> {
    let port = port.to_string();
    let arguments = [
        ("--etcd-servers", etcd),
        ("--bind-address", "127.0.0.1"),
        ("--advertise-address", "127.0.0.1"),
        ("--secure-port", &port),
        ("--service-cluster-ip-range", "10.0.0.0/16"),
        ("--service-account-issuer", "https://kubernetes.default.svc"),
        ("--authorization-mode", "RBAC"),
        // Nobody makes the ServiceAccounts that it wants pods to have.
        ("--disable-admission-plugins", "ServiceAccount"),
        ("--endpoint-reconciler-type", "none"),
        // It costs a tenth of a start, and something with each request.
        ("--enable-priority-and-fairness", "false"),
    ]
    .map(|(name, value)| format!("{name}={value}"));
    let files = FILES.map(|(name, file)| format!("{name}={}", folder.join(file).display()));
    arguments.into_iter().chain(files).collect()
}
