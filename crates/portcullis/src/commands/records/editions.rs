//! What is kept of trees of routes.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context, bail};
use api::{Kind, Object, ObjectId};
use controller::document;
use ir::RootId;
use records::{
    RecordKind, Store, StoreError, Stored,
    edition::{self, EPOCH, Epoch, Head, head_name},
    format,
};
use serde::Serialize;
use translate::{Edition, root_object};

use crate::{
    cli::{self, RecordsAction},
    commands::print,
};

const KIND: RecordKind = RecordKind::Edition;

/// Lists, shows or forgets editions.
pub(super) async fn editions(place: &impl Store, args: cli::Records) -> anyhow::Result<ExitCode> {
    let output = args.output.into();
    let (all, epoch) = read(place).await?;
    let mut listed: Vec<_> = all.iter().map(|stored| Listed::of(stored, epoch.as_ref())).collect();
    let (Some(action), Some(id)) = (args.action, args.id) else {
        return print(&document::render(&List { editions: listed }, output)?);
    };
    if action == RecordsAction::Forget && id == "all" {
        for stored in &all {
            forget(place, stored).await?;
        }
        return print("all are forgotten: trees that are good are kept anew, and others run with replacement\n");
    }
    let is_meant = |listed: &Listed| listed.id == id || listed.root.as_deref() == Some(&*id);
    let at = listed.iter().position(is_meant).with_context(|| {
        format!("there is no {id:?} among what is kept of trees: portcullis records editions lists it")
    })?;
    match action {
        RecordsAction::Show => {
            let (listed, stored) = (listed.swap_remove(at), &all[at]);
            let objects = objects(place, stored).await?;
            print(&document::render(&Shown { listed, objects }, output)?)
        }
        RecordsAction::Forget => {
            forget(place, &all[at]).await?;
            print(&format!(
                "{id} is forgotten: the tree is kept anew if it is good, and runs with replacement if not\n"
            ))
        }
    }
}

/// The shortest text that no other root has: `apps/shop`, with the kind before it if that is not HTTPRoute.
fn path_of(head: &Head) -> String {
    let kind = head.root_kind.kind();
    let prefix = if kind == Kind::HttpRoute { String::new() } else { format!("{kind}/") };
    format!("{prefix}{}/{}", head.namespace, head.name)
}

/// All heads, and the epoch that holds.
async fn read(place: &impl Store) -> anyhow::Result<(Vec<Stored>, Option<Epoch>)> {
    let mut all = place.list(KIND).await.context("records cannot be read")?;
    let epoch = all.extract_if(.., |stored| stored.name == EPOCH).next();
    Ok((all, epoch.and_then(|stored| format::read::<Epoch>(KIND, &stored.data).ok())))
}

/// What is kept of a root.
pub(super) async fn edition(place: &impl Store, root: &RootId) -> anyhow::Result<Edition> {
    let (all, epoch) = read(place).await?;
    let record = head_name(&root_object(root));
    let stored = all.iter().find(|stored| stored.name == record);
    let stored = stored.with_context(|| format!("nothing is kept of {root}: portcullis records editions lists it"))?;
    let head: Head =
        format::read(KIND, &stored.data).with_context(|| format!("what is kept of {root} cannot be read"))?;
    if epoch.is_none_or(|epoch| epoch.epoch != head.epoch) {
        bail!("what was kept of {root} is over, since nothing was kept for a while");
    }
    Ok(objects_of(place, stored, &head).await?.into_values().collect())
}

async fn forget(place: &impl Store, stored: &Stored) -> anyhow::Result<()> {
    match place.delete(KIND, &stored.name, &stored.version).await {
        Err(StoreError::Conflict) => bail!("{} was written meanwhile: try again", stored.name),
        deleted => deleted.context("the record cannot be deleted"),
    }
}

/// The objects of an edition, without what they say, which may be secret.
async fn objects(place: &impl Store, stored: &Stored) -> anyhow::Result<Vec<String>> {
    let Ok(head) = format::read::<Head>(KIND, &stored.data) else { return Ok(Vec::new()) };
    Ok(objects_of(place, stored, &head).await?.keys().map(ToString::to_string).collect())
}

async fn objects_of(place: &impl Store, stored: &Stored, head: &Head) -> anyhow::Result<BTreeMap<ObjectId, Object>> {
    let mut parts = BTreeMap::new();
    for name in &head.parts {
        let part = place.get(RecordKind::EditionPart, name).await.context("a part cannot be read")?;
        parts.extend(part.map(|part| (part.name, part.data.into())));
    }
    edition::read(&stored.name, head, &parts).context("the edition cannot be read")
}

/// An edition.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<String>,
    state: String,
}

impl Listed {
    fn of(stored: &Stored, epoch: Option<&Epoch>) -> Self {
        let id = stored.name.clone();
        match format::read::<Head>(KIND, &stored.data) {
            Err(error) => {
                let state = format!("cannot be read: {error}");
                Self { id, root: None, edition: None, since: None, release: None, state }
            }
            Ok(head) => Self {
                id,
                root: Some(path_of(&head)),
                edition: Some(head.hash),
                since: head.since.map(|since| since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
                release: Some(head.release),
                state: match epoch {
                    Some(epoch) if epoch.epoch == head.epoch => "kept".to_owned(),
                    _ => "over, since nothing was kept for a while".to_owned(),
                },
            },
        }
    }
}

/// All of them.
#[derive(Debug, Serialize)]
struct List {
    editions: Vec<Listed>,
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.editions.is_empty() {
            return writeln!(f, "nothing is kept of any tree");
        }
        let of = |listed: &Listed| listed.root.clone().unwrap_or_else(|| listed.id.clone());
        let width = self.editions.iter().map(|listed| of(listed).len()).max().unwrap_or_default();
        for listed in &self.editions {
            let (edition, since) = (listed.edition.as_deref().unwrap_or("-"), listed.since.as_deref().unwrap_or("-"));
            writeln!(f, "{:width$}  {edition}  {since}  {}", of(listed), listed.state)?;
        }
        Ok(())
    }
}

/// One of them.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    listed: Listed,
    objects: Vec<String>,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listed { id, root, edition, since, release, state } = &self.listed;
        let lines = [
            ("id", Some(id)),
            ("root", root.as_ref()),
            ("edition", edition.as_ref()),
            ("state", Some(state)),
            ("since", since.as_ref()),
            ("release", release.as_ref()),
        ];
        let mut text = String::new();
        for (name, value) in lines.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            writeln!(text, "{name:13} {value}")?;
        }
        for object in &self.objects {
            writeln!(text, "object        {object}")?;
        }
        f.write_str(&text)
    }
}
