//! What a controller remembers beyond its life.

mod listed;

use std::{
    fmt::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use cluster::records::Secrets;
use controller::document;
use records::{Quarantine, Store, StoreError, Stored, Verdicts, folder::Folder, format};
use serde::Serialize;
use tokio::time::timeout;

use self::listed::{Listed, Record};
use super::print;
use crate::{
    cli::{self, RecordsAction, RecordsKind},
    cluster_args::ApiServerArgs,
};

/// How often one tries while others write.
const TRIES: usize = 5;

/// Lists, shows or forgets records.
pub(crate) async fn records(args: cli::Records) -> anyhow::Result<ExitCode> {
    match args.kind {
        RecordsKind::Quarantine => at_place::<Quarantine>(args).await,
        RecordsKind::Verdicts => at_place::<Verdicts>(args).await,
    }
}

async fn at_place<R: Record>(args: cli::Records) -> anyhow::Result<ExitCode> {
    let request_timeout = args.request_timeout;
    match args.state.clone() {
        Some(folder) => {
            if !folder.is_dir() {
                bail!("{} is no folder: name the one that `portcullis run --state` has", folder.display());
            }
            of_kind::<R, _>(Answering(Folder::new(folder), request_timeout), args).await
        }
        None => {
            let config = args.api_server.config().await?;
            let client = cluster::watch::client(config).context("there is no way to the API server")?;
            let secrets = Secrets::new(client, &args.controller_namespace);
            let args = cli::Records { api_server: ApiServerArgs::default(), ..args };
            of_kind::<R, _>(Answering(secrets, request_timeout), args).await
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

    async fn read<R: Record>(&self) -> anyhow::Result<Option<Stored>> {
        let all = self.answer(self.0.list(R::KIND)).await.context("records cannot be read")?;
        Ok(all.into_iter().find(|stored| stored.name == R::NAME))
    }
}

async fn of_kind<R: Record, S: Store>(place: Answering<S>, args: cli::Records) -> anyhow::Result<ExitCode> {
    let output = args.output.into();
    match (args.action, args.id) {
        (Some(RecordsAction::Forget), Some(id)) => forget::<R, S>(&place, &id).await,
        (action, id) => {
            let stored = place.read::<R>().await?;
            let read = stored.map(|stored| format::read::<R>(R::KIND, &stored.data));
            let record = read.transpose().with_context(|| format!("{} cannot be read", R::NAME))?.unwrap_or_default();
            let mut entries = record.listed();
            if let (Some(RecordsAction::Show), Some(id)) = (action, id) {
                entries.retain(|listed| listed.id() == id);
                let shown = entries.pop().with_context(|| unknown::<R>(&id))?;
                return print(&document::render(&Shown(shown), output)?);
            }
            print(&document::render(&List { entries, nothing: R::NOTHING }, output)?)
        }
    }
}

async fn forget<R: Record, S: Store>(place: &Answering<S>, id: &str) -> anyhow::Result<ExitCode> {
    for _ in 0..TRIES {
        let Some(stored) = place.read::<R>().await? else {
            if id == "all" {
                return print(&format!("{}\n", R::NOTHING));
            }
            bail!(unknown::<R>(id))
        };
        let changed = if id == "all" {
            place.answer(place.0.delete(R::KIND, R::NAME, &stored.version)).await
        } else {
            let read = format::read::<R>(R::KIND, &stored.data);
            let mut record =
                read.with_context(|| format!("{} cannot be read, and can be forgotten with forget all", R::NAME))?;
            if !record.forget(id) {
                bail!(unknown::<R>(id));
            }
            let data = format::write(R::KIND, &record);
            place.answer(place.0.replace(R::KIND, R::NAME, data, Some(&stored.version))).await.map(drop)
        };
        match changed {
            Ok(()) => return print(&format!("{id} is forgotten, and what it {} is tried again\n", R::DOES)),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error).context("the record cannot be written"),
        }
    }
    bail!("others write the record all the time: try again")
}

fn unknown<R: Record>(id: &str) -> String {
    format!("there is no {id:?} among {}: portcullis records {} lists it", R::WHAT, R::KIND)
}

/// All of a kind.
#[derive(Debug, Serialize)]
struct List<L> {
    entries: Vec<L>,
    #[serde(skip)]
    nothing: &'static str,
}

impl<L: Listed> fmt::Display for List<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.entries.is_empty() {
            return writeln!(f, "{}", self.nothing);
        }
        let width = self.entries.iter().map(|entry| entry.object().len()).max().unwrap_or_default();
        for entry in &self.entries {
            writeln!(f, "{}  {:width$}  {}", entry.id(), entry.object(), entry.state())?;
        }
        Ok(())
    }
}

/// One of them.
#[derive(Debug, Serialize)]
struct Shown<L>(L);

impl<L: Listed> fmt::Display for Shown<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (name, value) in self.0.lines().into_iter().filter(|(_, value)| !value.is_empty()) {
            writeln!(text, "{name:13} {value}")?;
        }
        f.write_str(&text)
    }
}
