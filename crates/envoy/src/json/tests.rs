use std::{collections::BTreeSet, path::PathBuf, process::Command};

use prost_reflect::{DescriptorPool, FileDescriptor};

use super::{MESSAGES, REDACTED, redacted, value};
use crate::secret::LoginSecret;

/// The descriptor set of all of Envoy's messages, which `envoy-types` ships but does not export.
fn all_descriptors() -> Vec<u8> {
    let rustc = stdout(Command::new("rustc").arg("-vV"));
    let rustc = String::from_utf8(rustc).expect("rustc prints text");
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc tells its host");
    // Only what is built here was downloaded.
    let metadata = stdout(
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--offline", "--filter-platform", host, "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")),
    );
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages.iter().find(|package| package["name"] == "envoy-types").expect("envoy-types is used");
    let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a path"));
    std::fs::read(manifest.with_file_name("src/generated/types.bin")).expect("envoy-types ships its descriptors")
}

fn stdout(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Splits an encoded message into its fields: number, and the bytes with tag and length.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8], &[u8])> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let whole = message;
        let key = prost::encoding::decode_varint(&mut message).expect("a key");
        let body = match key & 7 {
            0 => {
                prost::encoding::decode_varint(&mut message).expect("a number");
                &[][..]
            }
            2 => {
                let length = prost::encoding::decode_varint(&mut message).expect("a length");
                let (body, rest) = message.split_at(usize::try_from(length).expect("a length"));
                message = rest;
                body
            }
            other => panic!("descriptors have no fields of wire type {other}"),
        };
        fields.push((key >> 3, &whole[..whole.len() - message.len()], body));
    }
    fields
}

fn with_imports(file: &FileDescriptor, files: &mut BTreeSet<String>) {
    if files.insert(file.name().into()) {
        for import in file.dependencies() {
            with_imports(&import, files);
        }
    }
}

/// The files that our messages need, byte for byte but for comments and positions, which a decoder that knows no
/// extensions would not keep.
fn pruned(all: &[u8]) -> Vec<u8> {
    const NAME: u64 = 1;
    const SOURCE_CODE_INFO: u64 = 9;
    let pool = super::with_own(DescriptorPool::decode(all).expect("descriptors"));
    let mut needed = BTreeSet::new();
    for name in MESSAGES {
        let message = pool.get_message_by_name(name).unwrap_or_else(|| panic!("{name} exists"));
        with_imports(&message.parent_file(), &mut needed);
    }
    let mut kept = Vec::new();
    for (_, _, file) in fields(all) {
        let parts = fields(file);
        let name = parts.iter().find(|(number, ..)| *number == NAME).expect("a file has a name").2;
        if needed.contains(std::str::from_utf8(name).expect("text")) {
            let file: Vec<u8> = parts
                .iter()
                .filter(|(number, ..)| *number != SOURCE_CODE_INFO)
                .flat_map(|(_, whole, _)| whole.iter().copied())
                .collect();
            prost::encoding::bytes::encode(1, &file, &mut kept);
        }
    }
    kept
}

#[test]
fn the_descriptor_set_holds_what_our_messages_need_and_nothing_else() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/descriptors.bin");
    let expected = pruned(&all_descriptors());
    if std::env::var_os("UPDATE_DESCRIPTORS").is_some() {
        std::fs::write(path, &expected).expect("descriptors.bin can be written");
    }
    let actual = std::fs::read(path).unwrap_or_default();
    assert!(actual == expected, "run this test with UPDATE_DESCRIPTORS=1 and look at what changes");
}

#[test]
fn a_private_key_is_never_printed() {
    let secret =
        ir::listener::TlsSecret { name: "secret/ns/cert".into(), chain: (*b"CHAIN").into(), key: (*b"PRIVATE").into() };
    let body = crate::secret::secret(&secret).body.to_bytes();
    let plain = value("envoy.extensions.transport_sockets.tls.v3.Secret", &body).expect("a secret");
    assert_eq!(plain["tlsCertificate"]["privateKey"]["inlineString"], "PRIVATE");
    let printed = redacted(plain);
    assert_eq!(printed["tlsCertificate"]["privateKey"]["inlineString"], REDACTED);
    assert_eq!(printed["tlsCertificate"]["certificateChain"]["inlineString"], "CHAIN");
    assert_eq!(printed["name"], "secret/ns/cert");
}

#[test]
fn a_secret_of_logins_is_never_printed() {
    for part in [LoginSecret::Client([7; 16]), LoginSecret::Cookies] {
        let body = part.resource(&ir::NsName::new("apps", "login"), b"PRIVATE").body.to_bytes();
        let plain = value("envoy.extensions.transport_sockets.tls.v3.Secret", &body).expect("a secret");
        let printed = redacted(plain);
        assert_eq!(printed["genericSecret"]["secret"]["inlineBytes"], REDACTED);
        let name = printed["name"].as_str().expect("a name");
        assert_eq!(
            (name, LoginSecret::extension_of(name)),
            (&*part.resource_name(&ir::NsName::new("apps", "login")), Some("apps/login"))
        );
    }
}

#[test]
fn a_slot_that_says_no_more_than_that_it_is_on_is_printed_as_envoy_reads_it() {
    let slot = crate::slots::on("decompress.zstd");
    let slots = crate::bytes::Fields::default().map(13, [(slot.name, &slot.config)]).into_bytes();
    let route = value("envoy.config.route.v3.Route", &slots).expect("a route");
    let on = serde_json::json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}});
    assert_eq!(route["typedPerFilterConfig"]["decompress.zstd"], on);
}

#[test]
fn unknown_messages_and_broken_bytes_are_errors() {
    let unknown = value("envoy.config.Nothing", b"").expect_err("no such message");
    assert_eq!(unknown.to_string(), "no descriptor of message envoy.config.Nothing");
    let broken = value("envoy.config.cluster.v3.Cluster", b"\xff").expect_err("not a cluster");
    assert!(broken.to_string().starts_with("these bytes are no envoy.config.cluster.v3.Cluster"), "{broken}");
}
