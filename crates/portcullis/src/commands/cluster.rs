//! The commands that ask a cluster, or files in its place.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, bail};
use api::Kind;
use controller::{
    admin::in_namespace,
    cluster_snapshot::{
        definitions,
        report::{Selection, StatusReport},
    },
    document::{self, Document},
};
use ir::{NsName, RootId};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use tokio::time::timeout;

use super::{print, print_document, records};
use crate::{
    cli::{self, Format, GatewayName, ReportFormat},
    source::{Answers, Cluster, Source, note},
};

/// Prints the routes as a tree.
pub(crate) async fn tree(args: cli::Tree) -> anyhow::Result<ExitCode> {
    if let Some(root) = &args.edition {
        return edition(root, args.state.as_deref(), args.answer).await;
    }
    let cli::AnswerArgs { source, output } = args.answer;
    let mut source = Source::open(source).await?;
    let translator = match &mut source.answers {
        Answers::Controller(controller) => {
            let namespace = source.namespace.as_deref().map(|namespace| ("namespace", namespace));
            let question: Vec<_> = [("format", word(output))].into_iter().chain(namespace).collect();
            return print(&controller.ask("/debug/routes", &question).await?);
        }
        Answers::Files(loaded) => &loaded.translator,
        Answers::Snapshot(snapshot) => &snapshot.translator,
    };
    let mut tree = explain::tree::tree(translator);
    tree.gateways.retain(|gateway| in_namespace(&gateway.gateway, source.namespace.as_deref()));
    print(&document::render(&tree, output.into())?)
}

/// Prints what is kept of a root, as it would be served.
async fn edition(root: &RootId, state: Option<&Path>, answer: cli::AnswerArgs) -> anyhow::Result<ExitCode> {
    let cli::AnswerArgs { mut source, output } = answer;
    let kept = records::edition(root, state, &source).await?;
    // What is kept is put on the objects that there are.
    source.from = cli::From::ApiServer;
    let mut source = Source::open(source).await?;
    let translator = match &mut source.answers {
        Answers::Controller(_) => bail!("a controller tells what it serves; ask with --from api-server, or files"),
        Answers::Files(loaded) => &mut loaded.translator,
        Answers::Snapshot(snapshot) => &mut snapshot.translator,
    };
    translator.translator_mut().keep_trees();
    translator.set_edition(root, Some(&kept));
    translator.settle();
    if !translator.inspect().is_from_edition(root) {
        bail!("nobody asks any more that what belongs to {root} keeps its last good version, so it is served as it is");
    }
    let mut tree = explain::tree::tree(translator);
    match root {
        RootId::Gateway(name) => tree.gateways.retain(|gateway| gateway.gateway == name.to_string()),
        RootId::Route(_) => {
            let root = root.route();
            for gateway in &mut tree.gateways {
                gateway.detached.clear();
                for listener in &mut gateway.listeners {
                    listener.routes.retain(|other| Some(other.route.route.live()) == root);
                }
                gateway.listeners.retain(|listener| !listener.routes.is_empty());
            }
            tree.gateways.retain(|gateway| !gateway.listeners.is_empty());
        }
    }
    print(&document::render(&tree, output.into())?)
}

/// Tells what becomes of a request.
pub(crate) async fn explain(mut args: cli::Explain) -> anyhow::Result<ExitCode> {
    if args.grpc {
        "POST".clone_into(&mut args.method);
        args.headers.extend(["content-type: application/grpc", "te: trailers"].map(str::to_owned));
    }
    let cli::AnswerArgs { source, output } = args.answer;
    let headers = args.headers.iter().map(String::as_str);
    let asked = match explain::Connection::parse(&args.url) {
        Some(connection) => Asked::Connection(connection?),
        None => Asked::Request(explain::Request::new(&args.method, &args.url, headers)?),
    };
    let mut source = Source::open(source).await?;
    let gateway = gateway(&source, args.gateway.name)?;
    let translator = match &mut source.answers {
        Answers::Controller(controller) => {
            let gateway = gateway.to_string();
            let words = [("format", word(output)), ("gateway", &gateway), ("method", &args.method), ("url", &args.url)];
            let headers = args.headers.iter().map(|header| ("header", header.as_str()));
            let question: Vec<_> = words.into_iter().chain(headers).collect();
            return print(&controller.ask("/debug/explain", &question).await?);
        }
        Answers::Files(loaded) => &loaded.translator,
        Answers::Snapshot(snapshot) => &snapshot.translator,
    };
    print(&match asked {
        Asked::Request(request) => document::render(&explain::explain(translator, &gateway, &request), output.into())?,
        Asked::Connection(connection) => {
            document::render(&explain::explain_connection(translator, &gateway, &connection), output.into())?
        }
    })
}

/// What is asked about.
enum Asked {
    Request(explain::Request),
    Connection(explain::Connection),
}

/// Prints what the Envoys of a Gateway are given.
pub(crate) async fn config_dump(args: cli::ConfigDump) -> anyhow::Result<ExitCode> {
    let mut source = Source::open(args.source).await?;
    let gateway = gateway(&source, args.gateway.name)?;
    let unserved = || {
        format!(
            "there is no Gateway {gateway} that is served: ask portcullis status gateway/{} -n {}",
            gateway.name, gateway.namespace
        )
    };
    let translator = match &mut source.answers {
        Answers::Controller(controller) => {
            let format = match args.output {
                Format::Yaml => "yaml",
                Format::Json => "json",
            };
            let question = [("format", format), ("gateway", &gateway.to_string())];
            let mut out = std::io::stdout().lock();
            controller.copy("/debug/snapshot", &question, &mut out).await.with_context(unserved)?;
            return Ok(ExitCode::SUCCESS);
        }
        Answers::Files(loaded) => &loaded.translator,
        Answers::Snapshot(snapshot) => &snapshot.translator,
    };
    print_document(&Document::of_gateway(translator, &gateway).with_context(unserved)?, args.output)
}

/// Prints what is wrong, where, and who must act.
pub(crate) async fn status(args: cli::Status) -> anyhow::Result<ExitCode> {
    let cli::AnswerArgs { source, output } = args.answer;
    let (kind, name) = asked(&args.object)?;
    let mut source = Source::open(source).await?;
    let namespace = match (&source.namespace, &name) {
        (Some(namespace), _) => Some(namespace.clone()),
        (None, Some(_)) if !args.all_namespaces && source.cluster.is_some() => Some(source.default_namespace()),
        _ => None,
    };
    let selection = Selection { namespace, kind, name };
    let mut known = None;
    let mut report = match &mut source.answers {
        Answers::Controller(controller) => {
            let part = |name, part: &Option<String>| part.clone().map(|part| (name, part));
            let question = [
                Some(("format", "json".to_owned())),
                part("namespace", &selection.namespace),
                part("kind", &selection.kind.map(|kind| kind.to_string())),
                part("name", &selection.name),
            ];
            let question: Vec<_> = question.iter().flatten().map(|(name, part)| (*name, part.as_str())).collect();
            let report = controller.ask("/debug/status", &question).await?;
            serde_json::from_str::<StatusReport>(&report).context("the controller is of another version")?
        }
        Answers::Files(loaded) => {
            known = Some(loaded.objects.iter().any(|id| selection.takes(id)));
            StatusReport::of(&loaded.translator.reports(), &selection)
        }
        Answers::Snapshot(snapshot) => {
            // Of some kinds not all that is there was read.
            let whole = selection.kind.is_none_or(|kind| !kind.is_read_by_reference());
            known = Some(snapshot.objects.iter().any(|id| selection.takes(id))).filter(|known| *known || whole);
            StatusReport::of_snapshot(snapshot, &selection)
        }
    };
    if selection.name.is_some() && report.objects.is_empty() && report.problems.is_empty() {
        is_there(known, &source, &selection).await?;
        note("nothing is known to be wrong with it, and no Gateway that is served here has to do with it");
    }
    if let Some(cluster) = &source.cluster {
        match definitions::lacking(&cluster.client, source.request_timeout).await {
            Ok(lacking) => {
                let lacking =
                    lacking.into_iter().filter(|lacking| kind.is_none_or(|kind| lacking.kind == kind.as_str()));
                report.definitions.extend(lacking);
            }
            Err(why) => note(format_args!("what definitions lack is not known, since they cannot be read: {why}")),
        }
    }
    print(&document::render(&report, output.into())?)?;
    Ok(if report.fails() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Fails where there is no object that is asked about by its name.
async fn is_there(known: Option<bool>, source: &Source, selection: &Selection) -> anyhow::Result<()> {
    let (Some(kind), Some(name)) = (selection.kind, &selection.name) else { return Ok(()) };
    let known = match (known, &source.cluster) {
        (Some(known), _) => known,
        (None, Some(cluster)) => {
            exists(cluster, source.request_timeout, kind, name, selection.namespace.as_deref()).await?
        }
        // Of a kind with a status, the controller's answer would have it.
        (None, None) => !kind.has_status_of_ours(),
    };
    if known {
        return Ok(());
    }
    let object = format!("{}.{}", kind.plural(), kind.group());
    let object = object.trim_end_matches('.');
    match &selection.namespace {
        Some(namespace) if kind.namespaced() => {
            bail!("{object} {name:?} not found in namespace {namespace}: name another by -n, or look in all with -A")
        }
        _ => bail!("{object} {name:?} not found"),
    }
}

async fn exists(
    cluster: &Cluster,
    request_timeout: std::time::Duration,
    kind: Kind,
    name: &str,
    namespace: Option<&str>,
) -> anyhow::Result<bool> {
    let gvk = GroupVersionKind::gvk(kind.group(), kind.versions()[0], kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    let client = cluster.client.clone();
    let objects: Api<DynamicObject> = match namespace.filter(|_| kind.namespaced()) {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = timeout(request_timeout, objects.list_metadata(&by_name)).await;
    let listed = listed.context("the API server does not answer in time")?;
    Ok(!listed.with_context(|| format!("cannot look whether {kind} {name} is there"))?.items.is_empty())
}

/// `KIND`, `KIND/NAME` or `KIND NAME`.
fn asked(words: &[String]) -> anyhow::Result<(Option<Kind>, Option<String>)> {
    let (kind, name) = match words {
        [] => return Ok((None, None)),
        [one] => one.split_once('/').map_or((one.as_str(), None), |(kind, name)| (kind, Some(name))),
        [kind, name, ..] => (kind.as_str(), Some(name.as_str())),
    };
    if name.is_some_and(|name| name.is_empty() || name.contains('/')) || (words.len() > 1 && kind.contains('/')) {
        bail!("{:?} is no object: write KIND/NAME, such as httproute/shop", words.join(" "));
    }
    let known = kind_named(kind).with_context(|| {
        let kinds: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str().to_lowercase()).collect();
        format!("{kind:?} is no kind that is read: name one of {}", kinds.join(", "))
    })?;
    Ok((Some(known), name.map(str::to_owned)))
}

/// A kind as kubectl takes it: in any case, in the singular, in the plural, in short, and with its group or not.
fn kind_named(text: &str) -> Option<Kind> {
    let (word, group) = text.split_once('.').map_or((text, None), |(word, group)| (word, Some(group)));
    let short = |kind| match kind {
        Kind::GatewayClass => "gc",
        Kind::Gateway => "gtw",
        Kind::ListenerSet => "lset",
        Kind::ReferenceGrant => "refgrant",
        Kind::GatewayParameters => "gwp",
        Kind::Service => "svc",
        Kind::ConfigMap => "cm",
        Kind::Deployment => "deploy",
        Kind::Namespace => "ns",
        _ => "",
    };
    let means = |kind: &Kind| {
        [kind.as_str(), kind.plural(), short(*kind)].iter().any(|known| known.eq_ignore_ascii_case(word))
            && group.is_none_or(|group| kind.group() == group)
    };
    Kind::ALL.iter().copied().find(|kind| !word.is_empty() && means(kind))
}

fn gateway(source: &Source, name: GatewayName) -> anyhow::Result<NsName> {
    let namespace = match (name.namespace, &source.namespace) {
        (Some(named), Some(other)) if named != *other => {
            bail!("--gateway {named}/{} and -n {other} name two namespaces: leave one out", name.name)
        }
        (Some(named), _) => named,
        (None, _) => source.default_namespace(),
    };
    Ok(NsName::new(namespace, name.name))
}

fn word(format: ReportFormat) -> &'static str {
    match format {
        ReportFormat::Text => "text",
        ReportFormat::Json => "json",
        ReportFormat::Yaml => "yaml",
    }
}

impl From<ReportFormat> for document::Format {
    fn from(format: ReportFormat) -> Self {
        match format {
            ReportFormat::Text => Self::Text,
            ReportFormat::Json => Self::Json,
            ReportFormat::Yaml => Self::Yaml,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> anyhow::Result<(Option<Kind>, Option<String>)> {
        asked(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_kind_and_a_name_are_written_as_for_kubectl() {
        let route = (Some(Kind::HttpRoute), Some("shop".to_owned()));
        for form in [
            &["httproute/shop"][..],
            &["HTTPRoute/shop"],
            &["httproutes/shop"],
            &["httproutes.gateway.networking.k8s.io/shop"],
            &["httproute", "shop"],
        ] {
            assert_eq!(words(form).expect("an object"), route, "{form:?}");
        }
        assert_eq!(words(&["gtw"]).expect("a kind"), (Some(Kind::Gateway), None));
        assert_eq!(words(&["svc"]).expect("a kind"), (Some(Kind::Service), None));
        assert_eq!(words(&[]).expect("all"), (None, None));
    }

    #[test]
    fn what_is_no_object_is_refused_with_what_could_be_written() {
        for form in [
            &["pod/shop"][..],
            &["httproute/"],
            &["httproute/a/b"],
            &["httproute/a", "b"],
            &["/a"],
            &["gateways.other/a"],
        ] {
            let error = words(form).expect_err("no object").to_string();
            assert!(error.contains("httproute"), "{form:?}: {error}");
        }
    }
}
