//! How a cluster is reached and served.

mod selector;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use anyhow::Context;
use clap::{ArgAction, Args};
use cluster::watch::Scope;
use controller::run::ClusterOptions;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// The port of the xDS server in a cluster.
const XDS_PORT: u16 = 9977;

/// Which API server, as kubectl has it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "API server")]
pub(crate) struct ApiServerArgs {
    /// A kubeconfig; else what KUBECONFIG names, ~/.kube/config, or in a pod its ServiceAccount.
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; else its current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// A cluster of the kubeconfig; else that of the context.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// A user of the kubeconfig; else that of the context.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

/// How a cluster is served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    api_server: ApiServerArgs,
    /// The controller's own namespace, in which it keeps its Lease and its certificate authority.
    #[arg(long, env = "POD_NAMESPACE", default_value = "portcullis-system", value_name = "NAMESPACE")]
    namespace: String,
    /// What no other replica is called.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    identity: Option<String>,
    /// Read these namespaces alone, separated by commas; else all.
    #[arg(
        long,
        env = "PORTCULLIS_WATCH_NAMESPACES",
        value_delimiter = ',',
        value_name = "NAMESPACES",
        conflicts_with = "watch_namespace_selector"
    )]
    watch_namespaces: Vec<String>,
    /// Read namespaces with matching labels alone, such as `team=web,!internal`; else all.
    #[arg(long, env = "PORTCULLIS_WATCH_NAMESPACE_SELECTOR", value_name = "SELECTOR")]
    watch_namespace_selector: Option<String>,
    /// Where proxies reach xDS, HOST:PORT; else portcullis.NAMESPACE.svc.cluster.local:9977.
    #[arg(long, env = "PORTCULLIS_XDS_SERVICE", value_name = "HOST:PORT")]
    xds_service: Option<String>,
    /// A folder with tls.crt, tls.key and ca.crt for xDS; else the controller keeps an authority of its own.
    #[arg(long, env = "PORTCULLIS_XDS_CERTIFICATE", value_name = "DIR")]
    xds_certificate: Option<PathBuf>,
    /// Whether proxies are run in the cluster for every Gateway.
    #[arg(
        long,
        env = "PORTCULLIS_DEPLOY_PROXIES",
        default_value_t = true,
        action = ArgAction::Set,
        value_name = "BOOL"
    )]
    deploy_proxies: bool,
    /// The image of Envoy for proxies, unless GatewayParameters say otherwise.
    #[arg(long, env = "PORTCULLIS_ENVOY_IMAGE", value_name = "IMAGE")]
    envoy_image: Option<String>,
}

impl ApiServerArgs {
    /// Whether a cluster is named, and not only the one that is there anyway.
    pub(crate) fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || self.cluster.is_some() || self.user.is_some()
    }

    /// How the API server is reached.
    pub(crate) async fn config(self) -> anyhow::Result<Config> {
        if !self.is_named() {
            return Config::infer().await.context(
                "there is no way to an API server: give --files to read manifests, or a kubeconfig by --kubeconfig or \
                 KUBECONFIG",
            );
        }
        let (kubeconfig, place) = match &self.kubeconfig {
            Some(path) => {
                let read = Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
                (read, path.display().to_string())
            }
            None => (Kubeconfig::read().context("there is no kubeconfig")?, "the kubeconfig".to_owned()),
        };
        let Self { context, cluster, user, .. } = self;
        let contexts = kubeconfig.contexts.iter().map(|known| known.name.as_str());
        among("context", context.as_deref(), contexts, &place)?;
        among("cluster", cluster.as_deref(), kubeconfig.clusters.iter().map(|known| known.name.as_str()), &place)?;
        among("user", user.as_deref(), kubeconfig.auth_infos.iter().map(|known| known.name.as_str()), &place)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions { context, cluster, user }).await;
        config.with_context(|| format!("{place} is no way to an API server"))
    }
}

/// Fails if what is chosen is none of those that there are.
fn among<'a>(
    what: &str,
    chosen: Option<&str>,
    known: impl Iterator<Item = &'a str> + Clone,
    place: &str,
) -> anyhow::Result<()> {
    let Some(chosen) = chosen else { return Ok(()) };
    if known.clone().any(|known| known == chosen) {
        return Ok(());
    }
    let known: Vec<_> = known.collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    anyhow::bail!("--{what} {chosen:?} is not in {place}, which has {known}")
}

impl ClusterArgs {
    /// What these arguments come to.
    pub(crate) async fn options(self) -> anyhow::Result<ClusterOptions> {
        let service =
            self.xds_service.unwrap_or_else(|| format!("portcullis.{}.svc.cluster.local:{XDS_PORT}", self.namespace));
        let (xds_host, xds_port) = host_and_port(&service)?;
        let scope = match (self.watch_namespace_selector.as_deref(), self.watch_namespaces) {
            (Some(text), _) if !text.is_empty() => {
                Scope::Selector(selector::parse(text).context("--watch-namespace-selector")?)
            }
            (_, names) => {
                let names: BTreeSet<Arc<str>> =
                    names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).map(Arc::from).collect();
                if names.is_empty() { Scope::All } else { Scope::Named(names) }
            }
        };
        let deploy = match (self.deploy_proxies, &self.envoy_image) {
            (false, _) => None,
            (true, None) => Some(deploy::Settings::default()),
            (true, Some(image)) => {
                Some(deploy::Settings { image: deploy::Image::parse(image), ..deploy::Settings::default() })
            }
        };
        Ok(ClusterOptions {
            client: self.api_server.config().await?,
            identity: self.identity.unwrap_or_else(own_name).into(),
            namespace: self.namespace,
            scope,
            xds_host,
            xds_port,
            certificate: self.xds_certificate,
            deploy,
        })
    }
}

fn host_and_port(text: &str) -> anyhow::Result<(Arc<str>, u16)> {
    let split = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match split {
        Some((host, port)) if !host.is_empty() && port != 0 => Ok((host.into(), port)),
        _ => anyhow::bail!("--xds-service {text:?} must be HOST:PORT"),
    }
}

/// A name that differs between processes of one host, and mostly between hosts.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}-{}", host.trim(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_xds_service_is_a_host_and_a_port() {
        assert_eq!(host_and_port("xds.example:1").expect("both"), ("xds.example".into(), 1));
        for text in ["", "xds.example", "xds.example:", ":1", "xds.example:0", "xds.example:65536"] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
    }
}
