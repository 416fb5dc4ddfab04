//! What a controller remembers beyond its life.

use std::{
    fmt::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use cluster::records::Secrets;
use controller::document;
use jiff::Timestamp;
use records::{
    Entry, Quarantine, RecordKind, Store, StoreError, Stored, folder::Folder, format, quarantine::NAME,
    quarantine::RELEASE,
};
use serde::Serialize;
use tokio::time::timeout;

use super::print;
use crate::{
    cli::{self, RecordsAction, RecordsKind},
    cluster_args::ApiServerArgs,
};

/// How often one tries while others write.
const TRIES: usize = 5;

/// Lists, shows or forgets records.
pub(crate) async fn records(args: cli::Records) -> anyhow::Result<ExitCode> {
    let RecordsKind::Quarantine = args.kind;
    let request_timeout = args.request_timeout;
    match args.state.clone() {
        Some(folder) => {
            if !folder.is_dir() {
                bail!("{} is no folder: name the one that `portcullis run --state` has", folder.display());
            }
            quarantine(Answering(Folder::new(folder), request_timeout), args).await
        }
        None => {
            let config = args.api_server.config().await?;
            let client = cluster::watch::client(config).context("there is no way to the API server")?;
            let secrets = Secrets::new(client, &args.controller_namespace);
            let args = cli::Records { api_server: ApiServerArgs::default(), ..args };
            quarantine(Answering(secrets, request_timeout), args).await
        }
    }
}

/// A place for records that answers in time.
struct Answering<S>(S, Duration);

impl<S: Store> Answering<S> {
    async fn answer<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = || StoreError::Other(format!("no answer within {:?}", self.1));
        timeout(self.1, answer).await.map_err(|_| late())?
    }

    async fn read(&self) -> anyhow::Result<Option<Stored>> {
        let all = self.answer(self.0.list(RecordKind::Quarantine)).await.context("records cannot be read")?;
        Ok(all.into_iter().find(|stored| stored.name == NAME))
    }
}

async fn quarantine<S: Store>(place: Answering<S>, args: cli::Records) -> anyhow::Result<ExitCode> {
    let output = args.output.into();
    match (args.action, args.id) {
        (Some(RecordsAction::Forget), Some(id)) => forget(&place, &id).await,
        (action, id) => {
            let stored = place.read().await?;
            let read = stored.map(|stored| format::read::<Quarantine>(RecordKind::Quarantine, &stored.data));
            let quarantine = read.transpose().with_context(|| format!("{NAME} cannot be read"))?.unwrap_or_default();
            let mut listed: Vec<_> = quarantine.entries.iter().map(Listed::of).collect();
            if let (Some(RecordsAction::Show), Some(id)) = (action, id) {
                listed.retain(|listed| listed.id == id);
                let shown = listed.pop().with_context(|| unknown(&id))?;
                return print(&document::render(&Shown(shown), output)?);
            }
            print(&document::render(&List { entries: listed }, output)?)
        }
    }
}

async fn forget<S: Store>(place: &Answering<S>, id: &str) -> anyhow::Result<ExitCode> {
    for _ in 0..TRIES {
        let Some(stored) = place.read().await? else {
            if id == "all" {
                return print("nothing is set aside\n");
            }
            bail!(unknown(id))
        };
        let changed = if id == "all" {
            place.answer(place.0.delete(RecordKind::Quarantine, NAME, &stored.version)).await
        } else {
            let read = format::read::<Quarantine>(RecordKind::Quarantine, &stored.data);
            let mut quarantine =
                read.with_context(|| format!("{NAME} cannot be read, and can be forgotten with forget all"))?;
            let before = quarantine.entries.len();
            quarantine.entries.retain(|entry| entry.id() != id);
            if quarantine.entries.len() == before {
                bail!(unknown(id));
            }
            let data = format::write(RecordKind::Quarantine, &quarantine);
            place.answer(place.0.replace(RecordKind::Quarantine, NAME, data, Some(&stored.version))).await.map(drop)
        };
        match changed {
            Ok(()) => return print(&format!("{id} is forgotten, and what it sets aside is tried again\n")),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error).context("the record cannot be written"),
        }
    }
    bail!("others write the record all the time: try again")
}

fn unknown(id: &str) -> String {
    format!("there is no {id:?} among what is set aside: portcullis records quarantine lists it")
}

/// An entry, without what its object says, which may be secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    state: String,
    since: String,
    versions: u32,
    release: String,
    fault: String,
    in_its_place: &'static str,
}

impl Listed {
    fn of(entry: &Entry) -> Self {
        let seconds = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let now = Timestamp::now();
        let state = match entry.until.filter(|_| entry.is_waiting(now)) {
            _ if entry.release != RELEASE => "of another release".to_owned(),
            _ if entry.over => "over".to_owned(),
            Some(until) => format!("set aside, and nothing else of it is tried before {}", seconds(until)),
            None => "set aside".to_owned(),
        };
        Self {
            id: entry.id(),
            object: entry.to_string(),
            uid: entry.uid.clone(),
            state,
            since: seconds(entry.since),
            versions: entry.versions,
            release: entry.release.clone(),
            fault: entry.fault.clone(),
            in_its_place: if entry.kept.is_some() {
                "its last version"
            } else {
                "nothing, or of a policy its targets, closed"
            },
        }
    }
}

/// All of them.
#[derive(Debug, Serialize)]
struct List {
    entries: Vec<Listed>,
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.entries.is_empty() {
            return writeln!(f, "nothing is set aside");
        }
        let width = self.entries.iter().map(|entry| entry.object.len()).max().unwrap_or_default();
        for Listed { id, object, since, state, .. } in &self.entries {
            writeln!(f, "{id}  {object:width$}  {since}  {state}")?;
        }
        Ok(())
    }
}

/// One of them.
#[derive(Debug, Serialize)]
struct Shown(Listed);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listed { id, object, uid, state, since, versions, release, fault, in_its_place } = &self.0;
        let versions = versions.to_string();
        let lines = [
            ("id", id.as_str()),
            ("object", object),
            ("uid", uid),
            ("state", state),
            ("since", since),
            ("versions", &versions),
            ("release", release),
            ("fault", fault),
            ("in its place", in_its_place),
        ];
        let mut text = String::new();
        for (name, value) in lines.into_iter().filter(|(_, value)| !value.is_empty()) {
            writeln!(text, "{name:13} {value}")?;
        }
        f.write_str(&text)
    }
}
