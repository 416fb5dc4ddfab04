//! How the objects of a Gateway are called and labelled (GEP-1762).

use std::sync::Arc;

use ir::NsName;

pub use api::core::GATEWAY_NAME;

/// The label that names the GatewayClass (GEP-1762).
pub const GATEWAY_CLASS_NAME: &str = "gateway.networking.k8s.io/gateway-class-name";

/// The label that tells who made an object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Its value at every object.
pub const MANAGED_BY: &str = "portcullis";

/// What a Service's name and a label's value may have.
const LONGEST: usize = 63;
/// Of the hash behind a name that had to be changed.
const HASH_DIGITS: usize = 10;

/// The names of a Gateway's objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names {
    /// Their namespace.
    pub namespace: Arc<str>,
    /// The name that they all have: `<gateway>-<class>`.
    pub object: Arc<str>,
    /// The value of the label [`GATEWAY_NAME`].
    pub gateway: Arc<str>,
    /// The value of the label [`GATEWAY_CLASS_NAME`].
    pub class: Arc<str>,
}

impl Names {
    /// The name of the `ServiceAccount` that the proxies run as: whoever shows its token is a proxy of this Gateway.
    pub fn service_account(&self) -> &Arc<str> {
        &self.object
    }
}

/// The names of the objects of a Gateway of a class.
///
/// A Service's name is the strictest: at most 63 letters, digits and hyphens, the first a letter. A pair whose name is
/// not of that form has it cut and changed, with a hash of the pair behind. Two pairs that have one name without that
/// (`a-b` of class `c` and `a` of class `b-c`) have to be told apart by who has it first.
pub fn names(gateway: &NsName, class: &str) -> Names {
    let whole = format!("{}-{class}", gateway.name);
    let plain: String =
        whole.chars().map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' }).collect();
    let plain = if plain.starts_with(|c: char| c.is_ascii_lowercase()) { plain } else { format!("gw-{plain}") };
    let object = if plain == whole && plain.len() <= LONGEST {
        plain
    } else {
        shortened(&plain, &format!("{}/{class}", gateway.name))
    };
    Names {
        namespace: Arc::clone(&gateway.namespace),
        object: object.into(),
        gateway: label_value(&gateway.name).into(),
        class: label_value(class).into(),
    }
}

/// The value of a label that holds the name of an object: the name, or its start and a hash where it is too long.
pub fn label_value(name: &str) -> String {
    if name.len() <= LONGEST { name.to_owned() } else { shortened(name, name) }
}

fn shortened(text: &str, hashed: &str) -> String {
    let hash = blake3::hash(hashed.as_bytes()).to_hex();
    let most = LONGEST - HASH_DIGITS - 1;
    let start: String = text.chars().take(most).collect();
    format!("{}-{}", start.trim_end_matches(['-', '.']), &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    fn object(gateway: &str, class: &str) -> String {
        names(&NsName::new("ns", gateway), class).object.to_string()
    }

    #[test]
    fn objects_are_called_by_gateway_and_class() {
        assert_eq!(object("web", "portcullis"), "web-portcullis");
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (one, other) = (object(&"a".repeat(253), "c"), object(&"a".repeat(252), "c"));
        assert_eq!((one.len(), other.len()), (63, 63));
        assert_ne!(one, other);
        assert!(one.starts_with("aaaa"), "{one}");
        // The cut falls on a hyphen, which no hash is put behind.
        assert!(!object(&format!("{}-{}", "a".repeat(51), "b".repeat(20)), "c").contains("--"));
    }

    #[test]
    fn names_that_a_service_may_not_have_are_changed_and_stay_apart() {
        for (gateway, class) in [("web.example", "c"), ("1web", "c"), ("web", "c.example"), (&"9".repeat(253), "c")] {
            let name = object(gateway, class);
            assert!(check::dns_label(&name) && name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
            assert!(name.len() <= 63, "{name}");
        }
        assert_ne!(object("web.a", "c"), object("web-a", "c"));
        assert_ne!(object("web.a", "c"), object("web", "a.c"));
    }

    #[test]
    fn label_values_of_long_names_are_cut_and_stay_apart() {
        let one = label_value(&format!("{}.{}", "a".repeat(51), "b".repeat(100)));
        let other = label_value(&format!("{}.{}", "a".repeat(51), "b".repeat(101)));
        assert!(check::label_value(&one) && check::label_value(&other), "{one} {other}");
        assert_ne!(one, other);
        assert_eq!(label_value("web.example"), "web.example");
    }
}
