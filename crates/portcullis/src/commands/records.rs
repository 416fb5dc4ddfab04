//! What a controller remembers beyond its life.

mod editions;
mod listed;

use std::{
    fmt::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, bail};
use cluster::records::Secrets;
use controller::document;
use ir::RootId;
use records::{Quarantine, Store, StoreError, Stored, Verdicts, Within, folder::Folder, format};
use serde::Serialize;
use translate::Edition;

use self::listed::{Listed, Record};
use super::print;
use crate::{
    cli::{self, RecordsAction, RecordsKind, SourceArgs},
    cluster_args::ApiServerArgs,
};

/// How often one tries while others write.
const TRIES: usize = 5;

/// Lists, shows or forgets records.
pub(crate) async fn records(args: cli::Records) -> anyhow::Result<ExitCode> {
    let timeout = args.request_timeout;
    match &args.state {
        Some(folder) => at(&Within { store: in_folder(folder)?, timeout }, args).await,
        None => {
            let store = in_cluster(&args.api_server, &args.controller_namespace).await?;
            at(&Within { store, timeout }, args).await
        }
    }
}

/// What is kept of a root, in a folder or else in a cluster.
pub(crate) async fn edition(root: &RootId, state: Option<&Path>, source: &SourceArgs) -> anyhow::Result<Edition> {
    let timeout = source.request_timeout;
    match state {
        Some(folder) => editions::edition(&Within { store: in_folder(folder)?, timeout }, root).await,
        None => {
            let store = in_cluster(&source.api_server, &source.controller_namespace).await?;
            editions::edition(&Within { store, timeout }, root).await
        }
    }
}

fn in_folder(folder: &Path) -> anyhow::Result<Folder> {
    if !folder.is_dir() {
        bail!("{} is no folder: name the one that `portcullis run --state` has", folder.display());
    }
    Ok(Folder::new(folder))
}

async fn in_cluster(api_server: &ApiServerArgs, namespace: &str) -> anyhow::Result<Secrets> {
    let client =
        cluster::watch::client(api_server.clone().config().await?).context("there is no way to the API server")?;
    Ok(Secrets::new(client, namespace))
}

async fn at(place: &impl Store, args: cli::Records) -> anyhow::Result<ExitCode> {
    match args.kind {
        RecordsKind::Quarantine => of_kind::<Quarantine>(place, args).await,
        RecordsKind::Verdicts => of_kind::<Verdicts>(place, args).await,
        RecordsKind::Editions => editions::editions(place, args).await,
    }
}

async fn read<R: Record>(place: &impl Store) -> anyhow::Result<Option<Stored>> {
    place.get(R::KIND, R::NAME).await.context("records cannot be read")
}

async fn of_kind<R: Record>(place: &impl Store, args: cli::Records) -> anyhow::Result<ExitCode> {
    let output = args.output.into();
    match (args.action, args.id) {
        (Some(RecordsAction::Forget), Some(id)) => forget::<R>(place, &id).await,
        (action, id) => {
            let stored = read::<R>(place).await?;
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

async fn forget<R: Record>(place: &impl Store, id: &str) -> anyhow::Result<ExitCode> {
    for _ in 0..TRIES {
        let Some(stored) = read::<R>(place).await? else {
            if id == "all" {
                return print(&format!("{}\n", R::NOTHING));
            }
            bail!(unknown::<R>(id))
        };
        let changed = if id == "all" {
            place.delete(R::KIND, R::NAME, &stored.version).await
        } else {
            let read = format::read::<R>(R::KIND, &stored.data);
            let mut record =
                read.with_context(|| format!("{} cannot be read, and can be forgotten with forget all", R::NAME))?;
            if !record.forget(id) {
                bail!(unknown::<R>(id));
            }
            let data = format::write(R::KIND, &record);
            place.replace(R::KIND, R::NAME, data, Some(&stored.version)).await.map(drop)
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
