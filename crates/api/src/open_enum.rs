//! The macro behind every enum of the API.

/// Defines an enum over the strings of an API field that keeps a string it does not know as `Unknown`.
///
/// With `default Variant;` that variant is the `Default`, which is the schema's default; without, the `Default` is
/// `Unknown` with an empty string: a required field that is missing.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+
        }
        $(default $default:ident;)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A value that this release does not know, as it was written.
            Unknown(Box<str>),
        }

        impl $name {
            /// The values that the API knows, as they are written, in its order.
            pub const KNOWN: &'static [&'static str] = &[$($text),+];

            /// The value as it is written in a manifest.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown(text) => text,
                }
            }

            /// False for `Unknown`.
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::Unknown(_))
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Unknown(other.into()),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                open_enum!(@default $($default)?)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;

                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a string")
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        Ok($name::from(text))
                    }
                }

                deserializer.deserialize_str(Visitor)
            }
        }
    };
    (@default) => { Self::Unknown(Box::default()) };
    (@default $default:ident) => { Self::$default };
}

#[cfg(test)]
mod tests {
    use crate::{gateway::ProtocolType, http_route::PathMatchType};

    #[test]
    fn a_known_value_and_an_unknown_one_come_back_as_they_were_written() {
        for text in ["\"Exact\"", "\"PathPrefix\"", "\"Glob\"", "\"\""] {
            let decoded: PathMatchType = serde_json::from_str(text).expect("any string decodes");
            assert_eq!(serde_json::to_string(&decoded).expect("encodes"), text);
        }
        assert_eq!(PathMatchType::from("Glob"), PathMatchType::Unknown("Glob".into()));
        assert!(!PathMatchType::from("Glob").is_known());
        assert!(PathMatchType::Exact.is_known());
        assert_eq!(PathMatchType::KNOWN, ["Exact", "PathPrefix", "RegularExpression"]);
    }

    #[test]
    fn a_value_that_is_not_a_string_is_refused() {
        assert!(serde_json::from_str::<PathMatchType>("3").is_err());
    }

    #[test]
    fn the_default_is_that_of_the_schema_or_an_empty_unknown() {
        assert_eq!(PathMatchType::default(), PathMatchType::PathPrefix);
        assert_eq!(ProtocolType::default(), ProtocolType::Unknown("".into()));
    }
}
