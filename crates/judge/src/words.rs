//! Envoy's words, fit for the owner of an object.

use std::sync::LazyLock;

use regex_lite::Regex;

/// Longest text that is told, in bytes.
pub(crate) const MAX_WORDS: usize = 1 << 10;

/// What is of no use to the owner of an object, or none of his business: how protobuf marks texts for people, files of Envoy's
/// sources and of this machine, addresses in memory.
static NOISE: LazyLock<Regex> = LazyLock::new(|| {
    let noise = r"goo\.gle/debug\w*\s*|(?:\[?\b(?:source|external|bazel-out)/[\w./@+-]+(?::\d+)?\]?)|/(?:tmp|proc|judge|dev/shm)/[^\s'\x22]*|\b0x[0-9a-fA-F]{6,16}\b";
    Regex::new(noise).expect("it is sound")
});

/// What stands behind `marker` and the name of the file that follows it.
pub(crate) fn of_refusal(errors: &str, marker: &str) -> String {
    let said = errors.split_once(marker).map_or(errors, |(_, said)| said);
    let said = said.strip_prefix(" '").and_then(|named| Some(named.split_once("': ")?.1)).unwrap_or(said);
    one_line(said)
}

/// The text without noise, on one line of bounded length, with nothing in it that a terminal would obey.
pub fn one_line(text: &str) -> String {
    // What is beyond is cut off in any case.
    let text = &text[..text.floor_char_boundary(16 * MAX_WORDS)];
    let text = NOISE.replace_all(text, "");
    let words: Vec<_> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let mut line = words.join(" ");
    if line.len() > MAX_WORDS {
        line.truncate(line.floor_char_boundary(MAX_WORDS - '…'.len_utf8()));
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_left_out_and_what_the_owner_wrote_stays() {
        let said = "error initializing configuration '/tmp/judge-x/7.pb': Proto constraint validation failed \
                    (RouteValidationError.Match: value is required): goo.gle/debugonly  name: \"apps/shop/0/0\"\n  \
                    [source/common/router/config_impl.cc:812] at 0x55d0c0ffee00 in /tmp/judge-x/7.pb";
        let line = of_refusal(said, "error initializing configuration");
        assert_eq!(
            line,
            "Proto constraint validation failed (RouteValidationError.Match: value is required): name: \
             \"apps/shop/0/0\" at in"
        );
        assert_eq!(one_line("invalid regex '/api/v1/[0-9': missing ]"), "invalid regex '/api/v1/[0-9': missing ]");
    }

    #[test]
    fn it_is_one_line_of_bounded_length_that_no_terminal_obeys() {
        for text in ["é\n".repeat(100_000), "x".repeat(MAX_WORDS + 1), "\u{1b}[31m\r\n\u{7}a".repeat(900)] {
            let line = one_line(&text);
            assert!(line.len() <= MAX_WORDS, "{}", line.len());
            assert!(!line.chars().any(char::is_control), "{line}");
        }
        assert_eq!(one_line(&"x".repeat(MAX_WORDS)).len(), MAX_WORDS);
    }
}
