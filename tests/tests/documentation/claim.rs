//! What a page says of an answer, in the comment behind a command.
//!
//! The comment begins with who answers: a backend (`a`, `a or b`, `the same` as before), a status (`404`) or nobody (`refused`). Behind that
//! may stand `sees PATH` (what the backend is asked for), `with NAME: VALUE` (a header of the answer, to the end of the
//! comment) and `b gets a copy`. All else is for people.

use anyhow::{Context, Result, ensure};
use portcullis_tests::echo::Echoed;

/// An answer as `curl -i` prints it.
#[derive(Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    /// What a backend says that it saw, if one answers.
    echoed: Option<Echoed>,
}

impl Answer {
    /// Reads what `curl -i` prints.
    pub(crate) fn read(printed: &str) -> Result<Self> {
        let (head, body) = printed.split_once("\r\n\r\n").with_context(|| format!("no answer: {printed}"))?;
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status")?.parse()?;
        let header =
            |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        Ok(Self { status, headers: lines.filter_map(header).collect(), echoed: serde_json::from_str(body).ok() })
    }

    /// The backend that answers.
    pub(crate) fn backend(&self) -> Option<&str> {
        self.echoed.as_ref().map(|echoed| &*echoed.backend)
    }

    /// Holds the answer against a comment. `before` is who answered last.
    pub(crate) fn is(&self, comment: &str, before: Option<&str>) -> Result<()> {
        let words: Vec<&str> = comment.split(' ').map(|word| word.trim_end_matches([',', ':', ';'])).collect();
        let said = || format!("claimed is `{comment}`, but the answer is {self:?}");
        match words[..] {
            ["the", "same", ..] => ensure!(before.is_some() && self.backend() == before, "{}", said()),
            [one, "or", other, ..] if is_backend(one) => {
                ensure!(self.backend() == Some(one) || self.backend() == Some(other), "{}", said());
            }
            [one, ..] if is_backend(one) => ensure!(self.status == 200 && self.backend() == Some(one), "{}", said()),
            [status, ..] if status.parse() == Ok(self.status) => {}
            _ => ensure!(false, "{}", said()),
        }
        if let Some(at) = words.iter().position(|word| *word == "sees") {
            let path = words.get(at + 1).context("sees what?")?;
            ensure!(self.echoed.as_ref().is_some_and(|echoed| echoed.path == *path), "{}", said());
        }
        if let Some((_, header)) = comment.split_once("with ") {
            let (name, value) = header.split_once(": ").context("a header is `name: value`")?;
            let name = name.to_lowercase();
            ensure!(self.headers.iter().any(|header| header.0 == name && header.1 == value), "{}", said());
        }
        Ok(())
    }
}

/// Who gets a copy, by a comment.
pub(crate) fn copied(comment: &str) -> Option<&str> {
    let (before, _) = comment.split_once(" gets a copy")?;
    before.rsplit(' ').next()
}

fn is_backend(word: &str) -> bool {
    matches!(word, "a" | "b")
}
