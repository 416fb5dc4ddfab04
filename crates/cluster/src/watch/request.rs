//! What is asked of an API server.

use std::sync::Arc;

use api::{Kind, meta::StringMap};
use http::{HeaderValue, Request, header::ACCEPT};
use kube::{
    api::{ListParams, WatchParams},
    core::Request as Resource,
};

/// Types of Secrets that nothing here refers to. There can be many of the first two, and the others are nobody's
/// business; they are not even sent to us.
const UNREAD_SECRETS: &str = "type!=helm.sh/release.v1,\
                              type!=kubernetes.io/service-account-token,\
                              type!=kubernetes.io/dockercfg,\
                              type!=kubernetes.io/dockerconfigjson,\
                              type!=bootstrap.kubernetes.io/token";

/// The answer without specs and statuses.
const METADATA_ONLY: [&str; 2] = [
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
];

/// Objects on a page of a list.
const PAGE: u32 = 500;

/// What one watch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// Objects of a kind; of one that is read by reference, their metadata.
    Kind(Kind),
    /// Objects of a kind that is read by reference, with all that they hold.
    Content(Kind),
    /// Which objects of a kind that is read by reference have some labels: their metadata.
    Selected(Kind),
    /// The names of all CustomResourceDefinitions.
    Crds,
    /// The metadata of objects with a label.
    Labelled(&'static Labelled),
}

/// Objects of one kind that have a label, of which the metadata is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labelled {
    /// The group; empty for the core one.
    pub(crate) group: &'static str,
    /// The version.
    pub(crate) version: [&'static str; 1],
    /// The kind.
    pub(crate) kind: &'static str,
    /// The plural, as in a URL.
    pub(crate) plural: &'static str,
    /// Whether it takes a CRD, so that it may be absent.
    pub(crate) custom: bool,
    /// The label and its value.
    pub(crate) label: (&'static str, &'static str),
}

impl Target {
    /// The versions that are understood, the preferred one first.
    pub(super) fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Kind(kind) | Self::Content(kind) | Self::Selected(kind) => kind.versions(),
            Self::Crds => &["v1"],
            Self::Labelled(Labelled { version, .. }) => version,
        }
    }

    /// The kind of its objects.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kind(kind) | Self::Content(kind) | Self::Selected(kind) => kind.as_str(),
            Self::Crds => "CustomResourceDefinition",
            Self::Labelled(Labelled { kind, .. }) => kind,
        }
    }

    /// The CRD that must be there for it, if it takes one.
    pub(super) fn crd(self) -> Option<String> {
        match self {
            Self::Kind(kind) | Self::Content(kind) | Self::Selected(kind) if !kind.is_built_in() => {
                Some(format!("{}.{}", kind.plural(), kind.group()))
            }
            Self::Labelled(Labelled { custom: true, plural, group, .. }) => Some(format!("{plural}.{group}")),
            _ => None,
        }
    }
}

/// What is asked next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// All objects there are and then each change: a streaming list. From the server's cache as it is, or, if `latest`,
    /// once that is up to date.
    Initial { latest: bool },
    /// Each change since a version.
    Changes { since: String },
    /// A page of a list; or all in one, which no change can break.
    Page { next: Option<String>, whole: bool },
}

/// The part of a cluster that one watch is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListWatch {
    pub(super) target: Target,
    /// Only this namespace; of Namespaces, only the one of this name.
    pub(super) namespace: Option<Arc<str>>,
    /// Which of its objects.
    pub(super) only: Only,
}

/// Some of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Only {
    /// All of them.
    All,
    /// The one of this name.
    Named(Arc<str>),
    /// Those with these labels.
    Labelled(StringMap),
}

/// What the state wants to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// List this, and give the answer with this number. The list must begin after this command.
    Fetch(u64, ListWatch),
    /// Nobody waits for this any more.
    Cancel(u64),
    /// The same two for an object to which others refer. Its requests have numbers of their own.
    Read(u64, ListWatch),
    /// Nobody waits for this any more.
    Forget(u64),
}

impl ListWatch {
    /// The request, for a version of the API. A watch ends by itself after so many seconds.
    pub(super) fn request(&self, version: &str, ask: &Ask, seconds: u32) -> kube::Result<Request<Vec<u8>>> {
        let field_selector = match (self.target, &self.namespace) {
            (Target::Kind(Kind::Secret) | Target::Selected(Kind::Secret), _) => Some(UNREAD_SECRETS.to_owned()),
            (Target::Kind(Kind::Namespace), Some(name)) => Some(format!("metadata.name={name}")),
            _ => match &self.only {
                Only::Named(name) => Some(format!("metadata.name={name}")),
                Only::All | Only::Labelled(_) => None,
            },
        };
        let label_selector = match (self.target, &self.only) {
            // Of Deployments only what runs a Gateway's proxies is read.
            (Target::Kind(Kind::Deployment), _) => Some(api::core::GATEWAY_NAME.to_owned()),
            (Target::Labelled(Labelled { label: (label, value), .. }), _) => Some(format!("{label}={value}")),
            (_, Only::Labelled(labels)) => {
                let pairs: Vec<_> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
                Some(pairs.join(","))
            }
            _ => None,
        };
        let resource = Resource::new(self.url(version));
        let mut request = match ask {
            Ask::Page { next, whole } => resource.list(&ListParams {
                field_selector,
                label_selector,
                limit: (!whole).then_some(PAGE),
                continue_token: next.clone(),
                ..ListParams::default()
            }),
            Ask::Initial { .. } | Ask::Changes { .. } => {
                let (since, send_initial_events) = match ask {
                    Ask::Changes { since } => (since.as_str(), false),
                    Ask::Initial { latest: true } => ("", true),
                    _ => ("0", true),
                };
                let params = WatchParams {
                    field_selector,
                    label_selector,
                    timeout: Some(seconds),
                    bookmarks: true,
                    send_initial_events,
                };
                resource.watch(&params, since)
            }
        }
        .map_err(kube::Error::BuildRequest)?;
        let metadata_only = match self.target {
            Target::Crds | Target::Labelled(_) | Target::Selected(_) | Target::Kind(Kind::Namespace) => true,
            Target::Kind(kind) => kind.is_read_by_reference(),
            Target::Content(_) => false,
        };
        if metadata_only {
            let [watch, list] = METADATA_ONLY;
            let accept = if matches!(ask, Ask::Page { .. }) { list } else { watch };
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        }
        Ok(request)
    }

    fn url(&self, version: &str) -> String {
        let (group, plural, namespaced) = match self.target {
            Target::Kind(kind) | Target::Content(kind) | Target::Selected(kind) => {
                (kind.group(), kind.plural(), kind.namespaced())
            }
            Target::Crds => ("apiextensions.k8s.io", "customresourcedefinitions", false),
            Target::Labelled(Labelled { group, plural, .. }) => (*group, *plural, true),
        };
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match self.namespace.as_ref().filter(|_| namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(kind: Kind, namespace: Option<&str>, ask: &Ask) -> String {
        let list_watch =
            ListWatch { target: Target::Kind(kind), namespace: namespace.map(Into::into), only: Only::All };
        let version = kind.versions().last().expect("a version");
        list_watch.request(version, ask, 240).expect("a request").uri().to_string()
    }

    #[test]
    fn a_streaming_list_asks_for_what_is_there_and_for_bookmarks() {
        assert_eq!(
            uri(Kind::HttpRoute, None, &Ask::Initial { latest: false }),
            "/apis/gateway.networking.k8s.io/v1beta1/httproutes?&watch=true&timeoutSeconds=240&allowWatchBookmarks=true\
             &sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"
        );
        let latest = uri(Kind::HttpRoute, None, &Ask::Initial { latest: true });
        assert!(latest.ends_with("&resourceVersion="), "{latest}");
    }

    #[test]
    fn a_watch_of_one_namespace_stays_in_it() {
        assert_eq!(
            uri(Kind::Service, Some("n"), &Ask::Changes { since: "7".into() }),
            "/api/v1/namespaces/n/services?&watch=true&timeoutSeconds=240&allowWatchBookmarks=true&resourceVersion=7"
        );
        assert_eq!(
            uri(Kind::Namespace, Some("n"), &Ask::Page { next: None, whole: true }),
            "/api/v1/namespaces?&fieldSelector=metadata.name%3Dn"
        );
        let classes = uri(Kind::GatewayClass, Some("n"), &Ask::Page { next: None, whole: false });
        assert_eq!(classes, "/apis/gateway.networking.k8s.io/v1beta1/gatewayclasses?&limit=500");
    }

    #[test]
    fn secrets_of_types_that_nobody_refers_to_are_not_asked_for() {
        let page = uri(Kind::Secret, None, &Ask::Page { next: Some("t+/=".into()), whole: false });
        assert!(page.contains("fieldSelector=type%21%3Dhelm.sh%2Frelease.v1%2Ctype%21%3D"), "{page}");
        assert!(page.contains("&limit=500&continue=t%2B%2F%3D"), "{page}");
        let labels = [("app", "shop")].into();
        let only = Only::Labelled(labels);
        let selected = ListWatch { target: Target::Selected(Kind::Secret), namespace: Some("n".into()), only };
        let selected = selected.request("v1", &Ask::Page { next: None, whole: false }, 240).expect("a request");
        let field_selector =
            |uri: &str| uri.split('&').find(|part| part.starts_with("fieldSelector")).map(str::to_owned);
        assert_eq!(field_selector(&selected.uri().to_string()), field_selector(&page), "nor by their labels");
    }

    #[test]
    fn of_secrets_the_metadata_is_asked_for_and_of_one_that_is_referred_to_all() {
        let list_watch = |target, name: Option<&str>| ListWatch {
            target,
            namespace: name.map(|_| "n".into()),
            only: name.map_or(Only::All, |name| Only::Named(name.into())),
        };
        let request = |list_watch: ListWatch, ask| list_watch.request("v1", &ask, 240).expect("a request");
        let accept = |request: &Request<Vec<u8>>| {
            request.headers().get(ACCEPT).map(|text| text.to_str().expect("text").to_owned())
        };
        let watch = request(list_watch(Target::Kind(Kind::Secret), None), Ask::Initial { latest: false });
        assert!(accept(&watch).is_some_and(|accept| accept.contains("as=PartialObjectMetadata")), "{watch:?}");
        let one = request(list_watch(Target::Content(Kind::Secret), Some("s")), Ask::Page { next: None, whole: false });
        assert_eq!(one.uri().to_string(), "/api/v1/namespaces/n/secrets?&fieldSelector=metadata.name%3Ds&limit=500");
        assert!(accept(&one).is_none_or(|accept| !accept.contains("Partial")), "{one:?}");
        let labels = [("app", "shop"), ("tier", "")].into();
        let selected =
            ListWatch { only: Only::Labelled(labels), ..list_watch(Target::Selected(Kind::Secret), Some("s")) };
        let selected = request(selected, Ask::Page { next: None, whole: false });
        let uri = selected.uri().to_string();
        assert!(uri.starts_with("/api/v1/namespaces/n/secrets?&fieldSelector=type%21%3D"), "{uri}");
        assert!(uri.ends_with("&labelSelector=app%3Dshop%2Ctier%3D&limit=500"), "{uri}");
        assert!(
            accept(&selected).is_some_and(|accept| accept.contains("as=PartialObjectMetadataList")),
            "{selected:?}"
        );
    }

    #[test]
    fn of_deployments_only_what_runs_proxies_is_asked_for() {
        let selector = "labelSelector=gateway.networking.k8s.io%2Fgateway-name";
        let page = uri(Kind::Deployment, None, &Ask::Page { next: None, whole: false });
        assert!(page.starts_with("/apis/apps/v1/deployments?") && page.contains(selector), "{page}");
        let watch = uri(Kind::Deployment, None, &Ask::Initial { latest: true });
        assert!(watch.contains(selector), "{watch}");
        assert!(!uri(Kind::Service, None, &Ask::Initial { latest: true }).contains("labelSelector"));
    }

    #[test]
    fn of_what_has_a_label_the_metadata_is_asked_for_in_one_namespace_or_all() {
        static SCALERS: Labelled = Labelled {
            group: "autoscaling",
            version: ["v2"],
            kind: "HorizontalPodAutoscaler",
            plural: "horizontalpodautoscalers",
            custom: false,
            label: ("made-by", "us"),
        };
        let list_watch = |namespace: Option<&str>| ListWatch {
            target: Target::Labelled(&SCALERS),
            namespace: namespace.map(Into::into),
            only: Only::All,
        };
        let page = Ask::Page { next: None, whole: true };
        let request = list_watch(Some("n")).request("v2", &page, 240).expect("a request");
        let selector = "labelSelector=made-by%3Dus";
        let url = "/apis/autoscaling/v2/namespaces/n/horizontalpodautoscalers?";
        assert_eq!(request.uri().to_string(), format!("{url}&{selector}"));
        let accept = request.headers()[ACCEPT].to_str().expect("text");
        assert!(accept.contains("as=PartialObjectMetadataList"), "{accept}");
        let changes = list_watch(None).request("v2", &Ask::Changes { since: "7".into() }, 240).expect("a request");
        assert!(changes.uri().to_string().starts_with("/apis/autoscaling/v2/horizontalpodautoscalers?"));
    }

    #[test]
    fn kinds_that_are_built_in_need_no_crd() {
        for kind in Kind::ALL.iter().copied() {
            let is_of_kubernetes = matches!(kind.group(), "" | "apps" | "discovery.k8s.io");
            assert_eq!(Target::Kind(kind).crd().is_none(), is_of_kubernetes, "{kind}");
        }
        assert_eq!(Target::Kind(Kind::HttpRoute).crd().as_deref(), Some("httproutes.gateway.networking.k8s.io"));
    }
}
