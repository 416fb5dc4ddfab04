//! What objects need of other objects that are too many, or too secret, to be kept.
//!
//! A cluster is full of Secrets and ConfigMaps that are nobody's business here. This is the one door to them: what is named here is read,
//! these keys of it are kept, and of all others the watch keeps a name and a number. A reader of another key, or of another
//! kind, is added here.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    BackendConfigPolicy, BackendTlsPolicy, Gateway, GatewayExtension, Kind, Object, ObjectId,
    core::{ConfigMap, Secret, SecretData},
    gateway::Listener,
    meta::StringMap,
    shared::SecretObjectReference,
    traffic_policy::secrets,
};

/// The keys of a certificate, as `kubernetes.io/tls` has them: the chain, and its private key.
pub const CERTIFICATE: [&str; 2] = ["tls.crt", "tls.key"];

/// The key of what a proxy shows who logs people in, as kgateway has it.
pub const CLIENT_SECRET: &str = "client-secret";

/// The key of certificates of authorities.
pub const AUTHORITIES: &str = "ca.crt";

/// The key of a ConfigMap with the keys by which tokens are judged.
pub const KEY_SET: &str = "jwks";

/// What one object needs of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The other one, of a kind that is [`Kind::is_read_by_reference`]. It need not exist.
    pub id: ObjectId,
    /// The keys that are read.
    pub keys: Keys,
}

/// Keys of an object that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// These.
    These(BTreeSet<Box<str>>),
    /// Whatever keys it has.
    All,
}

impl Default for Keys {
    /// None.
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl Keys {
    /// One key.
    pub fn one(key: &str) -> Self {
        Self::These([key.into()].into())
    }

    /// Whether a key is one of them.
    pub fn has(&self, key: &str) -> bool {
        match self {
            Self::These(keys) => keys.contains(key),
            Self::All => true,
        }
    }

    /// Whether all of these are among `others`.
    pub fn are_among(&self, others: &Self) -> bool {
        match (self, others) {
            (_, Self::All) => true,
            (Self::All, Self::These(_)) => false,
            (Self::These(keys), Self::These(others)) => keys.is_subset(others),
        }
    }

    /// Adds others.
    pub fn extend(&mut self, others: &Self) {
        match (&mut *self, others) {
            (Self::These(keys), Self::These(others)) => keys.extend(others.iter().cloned()),
            _ => *self = Self::All,
        }
    }
}

/// Which objects one object needs, whatever their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    /// Their kind, one that is [`Kind::is_read_by_reference`].
    pub kind: Kind,
    /// Their namespace.
    pub namespace: Arc<str>,
    /// The labels that they have, one at least.
    pub labels: StringMap,
}

impl Selection {
    /// Whether it selects an object of its kind with these labels.
    pub fn selects(&self, namespace: &str, labels: &StringMap) -> bool {
        *self.namespace == *namespace && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

impl Kind {
    /// Whether an object of the kind is read only while another one refers to it, and only the keys that it needs.
    pub const fn is_read_by_reference(self) -> bool {
        matches!(self, Self::Secret | Self::ConfigMap)
    }
}

impl Object {
    /// What the object needs of others of kinds that are [`Kind::is_read_by_reference`], permitted or not. No other object
    /// of these kinds is seen by whoever reads this one.
    pub fn references(&self) -> Vec<Reference> {
        match self {
            Self::Gateway(gateway) => certificates(gateway).chain(vouching(gateway)).collect(),
            Self::ListenerSet(set) => shown(&set.metadata.namespace, &set.spec.listeners).collect(),
            Self::TrafficPolicy(policy) => secrets::references(policy),
            Self::BackendConfigPolicy(policy) => connection(policy),
            Self::BackendTlsPolicy(policy) => authorities(policy),
            Self::GatewayExtension(extension) => key_sets(extension).into_iter().chain(login(extension)).collect(),
            _ => Vec::new(),
        }
    }

    /// Which objects of kinds that are [`Kind::is_read_by_reference`] it needs besides, all their keys.
    pub fn selections(&self) -> Vec<Selection> {
        match self {
            Self::TrafficPolicy(policy) => secrets::selections(policy),
            _ => Vec::new(),
        }
    }

    /// Forgets the values of all keys but these.
    pub fn keep_keys(&mut self, keep: impl Fn(&str) -> bool) {
        match self {
            Self::Secret(Secret { data: SecretData(data), .. }) => data.retain(|key, _| keep(key)),
            Self::ConfigMap(ConfigMap { data, .. }) => data.retain(|key, _| keep(key)),
            _ => {}
        }
    }
}

/// The Secret with what is shown who logs people in.
fn login(extension: &GatewayExtension) -> Vec<Reference> {
    let login = extension.spec.oauth2.as_ref();
    let name = login.map(|login| &*login.credentials.client_secret_ref.name).filter(|name| !name.is_empty());
    let reference = |name: &str| {
        let id = ObjectId::new(Kind::Secret, Arc::clone(&extension.metadata.namespace), name);
        Reference { id, keys: Keys::one(CLIENT_SECRET) }
    };
    name.map(reference).into_iter().collect()
}

/// The Secret that a policy connects with.
fn connection(policy: &BackendConfigPolicy) -> Vec<Reference> {
    let tls = policy.spec.fields.get("tls");
    let name = tls.as_ref().and_then(|tls| tls.pointer("/secretRef/name")?.as_str()).filter(|name| !name.is_empty());
    let reference = |name: &str| {
        let mut keys = certificate();
        keys.extend(&Keys::one(AUTHORITIES));
        Reference { id: ObjectId::new(Kind::Secret, Arc::clone(&policy.metadata.namespace), name), keys }
    };
    name.map(reference).into_iter().collect()
}

/// The objects with the authorities by which proxies judge a backend.
fn authorities(policy: &BackendTlsPolicy) -> Vec<Reference> {
    let written = policy.spec.validation.iter().flat_map(|validation| &validation.ca_certificate_refs);
    let named = written.filter_map(|written| {
        let kind = authorities_kind(&written.group, &written.kind).filter(|_| !written.name.is_empty())?;
        let id = ObjectId::new(kind, Arc::clone(&policy.metadata.namespace), Arc::clone(&written.name));
        Some(Reference { id, keys: Keys::one(AUTHORITIES) })
    });
    named.collect()
}

/// The kind that a reference to authorities means, of those that have any.
pub fn authorities_kind(group: &str, kind: &str) -> Option<Kind> {
    Kind::find(group, kind).filter(|kind| matches!(kind, Kind::ConfigMap | Kind::Secret))
}

/// The ConfigMaps with the keys by which an extension judges tokens.
fn key_sets(extension: &GatewayExtension) -> Vec<Reference> {
    let providers = extension.spec.jwt.iter().flat_map(|jwt| &jwt.providers);
    let named = providers.filter_map(|provider| provider.jwks.local.as_ref()?.config_map_ref.as_ref());
    let named = named.map(|config_map| &config_map.name).filter(|name| !name.is_empty());
    let reference = |name: &Arc<str>| Reference {
        id: ObjectId::new(Kind::ConfigMap, Arc::clone(&extension.metadata.namespace), Arc::clone(name)),
        keys: Keys::one(KEY_SET),
    };
    named.map(reference).collect()
}

fn certificate() -> Keys {
    Keys::These(CERTIFICATE.map(Box::from).into())
}

/// The Secrets with what a Gateway shows to clients, and to backends.
fn certificates(gateway: &Gateway) -> impl Iterator<Item = Reference> {
    let own = &gateway.metadata.namespace;
    let backends = gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
    let to_backends = backends.and_then(|backends| backends.client_certificate_ref.as_ref());
    shown(own, &gateway.spec.listeners).chain(to_backends.and_then(|written| certificate_in(own, written)))
}

/// The Secrets with what listeners of an object of a namespace show to clients.
fn shown(own: &Arc<str>, listeners: &[Listener]) -> impl Iterator<Item = Reference> {
    let tls = listeners.iter().filter_map(|listener| listener.tls.as_ref());
    tls.flat_map(|tls| &tls.certificate_refs).filter_map(|written| certificate_in(own, written))
}

/// The Secret that an object of a namespace means by a reference to a certificate.
fn certificate_in(own: &Arc<str>, written: &SecretObjectReference) -> Option<Reference> {
    let SecretObjectReference { group, kind, namespace, name } = written;
    let namespace = namespace.as_ref().filter(|namespace| !namespace.is_empty()).unwrap_or(own);
    let id = || ObjectId::new(Kind::Secret, Arc::clone(namespace), Arc::clone(name));
    (group.is_empty() && &**kind == "Secret").then(|| Reference { id: id(), keys: certificate() })
}

/// The objects with the authorities by which a Gateway judges clients.
fn vouching(gateway: &Gateway) -> Vec<Reference> {
    let frontend = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref());
    let configs =
        frontend.iter().flat_map(|it| std::iter::once(&it.default).chain(it.per_port.iter().map(|at| &at.tls)));
    let written = configs.filter_map(|config| config.validation.as_ref()).flat_map(|asked| &asked.ca_certificate_refs);
    let named = written.filter_map(|written| {
        let kind = authorities_kind(&written.group, &written.kind).filter(|_| !written.name.is_empty())?;
        let namespace = written.namespace.as_ref().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or(&gateway.metadata.namespace);
        let id = ObjectId::new(kind, Arc::clone(namespace), Arc::clone(&written.name));
        Some(Reference { id, keys: Keys::one(AUTHORITIES) })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gateway_needs_the_certificates_and_authorities_that_it_names() {
        let gateway = json!({
            "metadata": { "name": "g", "namespace": "n" },
            "spec": { "gatewayClassName": "c", "listeners": [
                { "name": "a", "port": 443, "protocol": "HTTPS", "tls": { "certificateRefs": [
                    { "name": "own" }, { "name": "theirs", "namespace": "m" },
                    { "name": "none", "kind": "ConfigMap" }, { "name": "none", "group": "example.org" },
                ] } },
                { "name": "b", "port": 80, "protocol": "HTTP" },
            ], "tls": {
                "backend": { "clientCertificateRef": { "name": "shown", "namespace": "m" } },
                "frontend": {
                    "default": { "validation": { "caCertificateRefs": [
                        { "group": "", "kind": "ConfigMap", "name": "ca" }, { "group": "", "kind": "Service", "name": "none" },
                    ] } },
                    "perPort": [{ "port": 443, "tls": { "validation": { "caCertificateRefs": [
                        { "group": "", "kind": "Secret", "name": "ca", "namespace": "m" },
                    ] } } }],
                },
            } },
        });
        let gateway = crate::decode_json(Kind::Gateway, &gateway.to_string()).expect("a Gateway");
        let references = gateway.references();
        let needs: Vec<_> = references.iter().map(|Reference { id, keys }| (id.to_string(), keys.clone())).collect();
        let certificates = ["Secret n/own", "Secret m/theirs", "Secret m/shown"].map(|id| (id, certificate()));
        let authorities = ["ConfigMap n/ca", "Secret m/ca"].map(|id| (id, Keys::one(AUTHORITIES)));
        let expected: Vec<_> =
            certificates.into_iter().chain(authorities).map(|(id, keys)| (id.to_owned(), keys)).collect();
        assert_eq!(needs, expected);
    }

    #[test]
    fn an_extension_needs_the_key_sets_of_its_own_namespace_that_it_names() {
        let local = |local| json!({ "name": "p", "jwks": { "local": local } });
        let extension = json!({
            "metadata": { "name": "e", "namespace": "n" },
            "spec": { "jwt": { "providers": [
                local(json!({ "configMapRef": { "name": "keys" } })), local(json!({ "configMapRef": {} })),
                local(json!({ "inline": "{}" })),
            ] } },
        });
        let extension = crate::decode_json(Kind::GatewayExtension, &extension.to_string()).expect("an extension");
        let id = ObjectId::new(Kind::ConfigMap, "n", "keys");
        assert_eq!(extension.references(), [Reference { id, keys: Keys::one(KEY_SET) }]);
    }

    #[test]
    fn a_policy_of_tls_needs_the_authorities_of_its_own_namespace_that_it_names() {
        let reference = |group: &str, kind: &str, name: &str| json!({ "group": group, "kind": kind, "name": name });
        let policy = json!({
            "metadata": { "name": "p", "namespace": "n" },
            "spec": { "targetRefs": [reference("", "Service", "s")], "validation": { "hostname": "a", "caCertificateRefs": [
                reference("", "ConfigMap", "one"), reference("", "Secret", "two"), reference("", "Service", "none"),
                reference("example.org", "ConfigMap", "none"), reference("", "ConfigMap", ""),
            ] } },
        });
        let policy = crate::decode_json(Kind::BackendTlsPolicy, &policy.to_string()).expect("a policy");
        let expected = [(Kind::ConfigMap, "one"), (Kind::Secret, "two")]
            .map(|(kind, name)| Reference { id: ObjectId::new(kind, "n", name), keys: Keys::one("ca.crt") });
        assert_eq!(policy.references(), expected);
    }

    #[test]
    fn a_listener_set_needs_the_certificates_that_its_listeners_name() {
        let listener = |name: &str, reference| json!({"name": name, "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [reference]}});
        let set = json!({
            "metadata": { "name": "s", "namespace": "n" },
            "spec": { "parentRef": { "name": "g", "namespace": "infra" }, "listeners": [
                listener("a", json!({ "name": "own" })), listener("b", json!({ "name": "other", "namespace": "m" })),
                listener("c", json!({ "name": "none", "kind": "Service" })),
            ] },
        });
        let set = crate::decode_json(Kind::ListenerSet, &set.to_string()).expect("a ListenerSet");
        let named: Vec<_> = set.references().into_iter().map(|reference| reference.id.to_string()).collect();
        assert_eq!(named, ["Secret n/own", "Secret m/other"]);
    }

    #[test]
    fn only_the_keys_that_are_needed_are_kept() {
        let secret =
            json!({ "metadata": { "name": "s", "namespace": "n" }, "data": { "tls.crt": "YQ==", "other": "YQ==" } });
        let mut secret = crate::decode_json(Kind::Secret, &secret.to_string()).expect("a Secret");
        secret.keep_keys(|key| CERTIFICATE.contains(&key));
        let Object::Secret(secret) = secret else { panic!("no Secret") };
        assert_eq!(secret.data.0.keys().map(|key| &**key).collect::<Vec<_>>(), ["tls.crt"]);

        let map = json!({ "metadata": { "name": "c", "namespace": "n" }, "data": { "jwks": "{}", "other": "a" } });
        let mut map = crate::decode_json(Kind::ConfigMap, &map.to_string()).expect("a ConfigMap");
        map.keep_keys(|key| key == KEY_SET);
        let Object::ConfigMap(map) = map else { panic!("no ConfigMap") };
        assert_eq!(map.data.keys().map(|key| &**key).collect::<Vec<_>>(), ["jwks"]);
    }
}
