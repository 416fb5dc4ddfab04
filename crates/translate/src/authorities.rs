//! Certificates of authorities in ConfigMaps and Secrets, by which backends and clients are judged.

use std::sync::Arc;

use api::{Kind, ObjectId, references::AUTHORITIES};
use engine::{Lookup, Scope};
use envoy::resource::Encoded;
use validate::tls::Authorities;

use crate::{
    internal,
    tables::{
        input::{ConfigMaps, Secrets},
        tls::{BundleId, BundleState, Vouching},
    },
    target::key_of,
};

tables! {
    /// The authorities in an object, or why there are none; absent where the object is.
    AuthoritiesOf: ObjectId => Result<Authorities, Arc<str>>;
    /// The secret of a bundle, the same for all Gateways.
    BundleBytes: BundleId => Encoded;
}

impl Lookup for AuthoritiesOf {
    fn compute(scope: &Scope<'_>, object: &ObjectId) -> Option<Self::Value> {
        let key = key_of(object);
        let text: Option<Arc<[u8]>> = match object.kind {
            Kind::Secret => scope.get::<Secrets>(&key)?.data.get(AUTHORITIES).cloned(),
            _ => scope.get::<ConfigMaps>(&key)?.data.get(AUTHORITIES).map(|text| text.as_bytes().into()),
        };
        let read = match text {
            None => Err(format!("{object} has no {AUTHORITIES}; store certificates of authorities there, in PEM")),
            Some(text) => validate::tls::authorities(&text).map_err(|invalid| format!("{object}: {invalid}")),
        };
        Some(read.map_err(Into::into))
    }

    fn poisoned(_: &Scope<'_>, object: &ObjectId, _: &engine::Fault) -> Option<Self::Value> {
        Some(Err(format!("{object} cannot be used: {}", internal::WORDS).into()))
    }
}

/// The authorities of a bundle together, and why objects give nothing to it. It is kept nowhere, since many policies may name
/// much and be used by nobody.
fn joined(scope: &Scope<'_>, key: &BundleId) -> (Authorities, Vec<(ObjectId, Arc<str>)>) {
    let mut all = Authorities::default();
    let mut faults: Vec<(ObjectId, Arc<str>)> = Vec::new();
    for object in key.objects() {
        let added = match scope.get::<AuthoritiesOf>(object).as_deref() {
            None => Err(format!("{object} does not exist; create it, or correct the name").into()),
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(own)) => all.extend(own).map_err(|invalid| Arc::from(format!("{object}: {invalid}"))),
        };
        if let Err(why) = added {
            faults.push((object.clone(), why));
        }
    }
    (all, faults)
}

impl Lookup for BundleState {
    fn compute(scope: &Scope<'_>, key: &BundleId) -> Option<Vouching> {
        let (all, faults) = joined(scope, key);
        let bytes = all.pem().len() as u64;
        let warning = all.namesakes().map(|subject| namesakes(subject).into());
        Some(Vouching { faults, any: bytes > 0, bytes: bytes.next_power_of_two(), warning })
    }

    fn poisoned(_: &Scope<'_>, key: &BundleId, _: &engine::Fault) -> Option<Vouching> {
        let fault = |object: &ObjectId| (object.clone(), format!("it cannot be used: {}", internal::WORDS).into());
        Some(Vouching { faults: key.objects().iter().map(fault).collect(), any: false, bytes: 1, warning: None })
    }
}

fn namesakes(subject: &str) -> String {
    format!(
        "several authorities are called {subject} and have different keys: a proxy takes the one that a certificate's \
         authorityKeyIdentifier names, and of those without it the first one, so that certificates of the others may be refused; \
         have certificates with that identifier, or authorities with names of their own"
    )
}

impl Lookup for BundleBytes {
    fn compute(scope: &Scope<'_>, bundle: &BundleId) -> Option<Encoded> {
        let (all, _) = joined(scope, bundle);
        let pem = all.pem();
        (!pem.is_empty()).then(|| envoy::secret::authorities(&bundle.to_string(), &pem))
    }
}

/// The secret of a bundle.
pub(crate) fn secret(scope: &Scope<'_>, bundle: &BundleId) -> Option<Encoded> {
    scope.get::<BundleBytes>(bundle).map(|encoded| (*encoded).clone())
}
