//! Configurations of extensions, in what `portcullis translate` prints: those to which nothing refers are the same for all
//! Gateways.

const BEGINS: &str = "  extensions:\n";

/// Each of the first Gateway, as it is printed.
pub(crate) fn first(printed: &str) -> Vec<String> {
    let Some((_, rest)) = printed.split_once(BEGINS) else { return Vec::new() };
    let mut extensions: Vec<String> = Vec::new();
    for line in rest.lines().take_while(|line| line.starts_with("  - ") || line.starts_with("    ")) {
        if line.starts_with("  - ") {
            extensions.push(String::new());
        }
        if let Some(extension) = extensions.last_mut() {
            extension.push_str(line);
            extension.push('\n');
        }
    }
    extensions
}

/// The text with a line in place of each that is one of `standard`.
pub(crate) fn elided(printed: &str, standard: &[String]) -> String {
    let short = |extension: &str| {
        let name = extension.lines().find_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("name: "));
        format!("  - {} as in extensions.yaml\n", name.unwrap_or_default())
    };
    standard.iter().fold(printed.to_owned(), |text, extension| text.replace(extension, &short(extension)))
}
