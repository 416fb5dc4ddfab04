//! Messages by which Envoy matches requests by an expression, which `envoy-types` lacks.

use envoy_types::pb::xds::r#type::v3::CelExpression;
use prost::{Message, Name};
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

/// Whether an expression holds.
#[derive(Clone, PartialEq, Message)]
pub struct CelMatcher {
    /// The expression.
    #[prost(message, optional, tag = "1")]
    pub expr_match: Option<CelExpression>,
    /// The expression as it is written; for people.
    #[prost(string, tag = "2")]
    pub description: String,
}

/// What is known of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct HttpAttributesCelMatchInput {}

const PACKAGE: &str = "xds.type.matcher.v3";

impl Name for CelMatcher {
    const NAME: &'static str = "CelMatcher";
    const PACKAGE: &'static str = PACKAGE;

    fn type_url() -> String {
        format!("type.googleapis.com/{}", Self::full_name())
    }
}

impl Name for HttpAttributesCelMatchInput {
    const NAME: &'static str = "HttpAttributesCelMatchInput";
    const PACKAGE: &'static str = PACKAGE;

    fn type_url() -> String {
        format!("type.googleapis.com/{}", Self::full_name())
    }
}

/// Their descriptors.
pub(crate) fn descriptors() -> FileDescriptorProto {
    let field = |name: &str, number, kind: Type, message: Option<&str>| FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(Label::Optional as i32),
        r#type: Some(kind as i32),
        type_name: message.map(Into::into),
        ..FieldDescriptorProto::default()
    };
    let message = |name: &str, field| DescriptorProto { name: Some(name.into()), field, ..DescriptorProto::default() };
    let expression = field("expr_match", 1, Type::Message, Some(".xds.type.v3.CelExpression"));
    let description = field("description", 2, Type::String, None);
    FileDescriptorProto {
        name: Some("xds/type/matcher/v3/cel.proto".into()),
        package: Some(PACKAGE.into()),
        dependency: vec!["xds/type/v3/cel.proto".into()],
        message_type: vec![
            message(CelMatcher::NAME, vec![expression, description]),
            message(HttpAttributesCelMatchInput::NAME, Vec::new()),
        ],
        syntax: Some("proto3".into()),
        ..FileDescriptorProto::default()
    }
}
