//! Registration of tables and groups, in settling order.

use std::any::{Any, TypeId};

use crate::core::{Core, Store};
use crate::engine::Engine;
use crate::groups::GroupStore;
use crate::node::Place;
use crate::places::Places;
use crate::scope;
use crate::store::{Source, TableStore};
use crate::table::{Derived, Group, Input, Lookup, Table};

/// Collects the tables and groups of an engine. The order in which they are registered is the order in which they
/// settle: each may read what stands before it, and demand and emit into what stands behind it.
///
/// All methods panic on a table or group that is registered twice, or that is referred to before it is registered.
#[derive(Default)]
pub struct Builder {
    stores: Vec<Box<dyn Store>>,
    /// By place: the first place that it is layered with.
    layers: Vec<Place>,
    places: Places,
}

impl Engine {
    /// Starts an engine: register tables and groups in settling order.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    fn place(&self) -> Place {
        Place::try_from(self.stores.len()).expect("fewer than 65,536 tables and groups")
    }

    fn add(mut self, marker: TypeId, store: impl Store) -> Self {
        let place = self.place();
        let name = store.name();
        assert!(self.places.insert(marker, place), "`{name}` is registered twice");
        assert!(self.stores.iter().all(|other| other.name() != name), "two tables or groups are named `{name}`");
        self.stores.push(Box::new(store));
        self.layers.push(place);
        self
    }

    fn table_mut<T: Table>(&mut self) -> &mut TableStore<T> {
        let Some(place) = self.places.get(TypeId::of::<T>()) else { panic!("`{}` is not registered yet", T::NAME) };
        let store: &mut dyn Any = &mut *self.stores[place as usize];
        store.downcast_mut().expect("a marker is registered with its own store")
    }

    /// Next comes a table that is written from outside.
    pub fn input<T: Input>(self) -> Self {
        let store = TableStore::<T>::new(self.place(), Source::Input, |_| 0);
        self.add(TypeId::of::<T>(), store)
    }

    /// Next comes a table whose rows are computed when they are read.
    pub fn lookup<T: Lookup>(self) -> Self {
        let store = TableStore::<T>::new(self.place(), Source::Lookup(scope::lookup::<T>), T::depth);
        self.add(TypeId::of::<T>(), store)
    }

    /// Next comes a table whose rows exist while they are demanded.
    pub fn derived<T: Derived>(self) -> Self {
        let store = TableStore::<T>::new(self.place(), Source::Derived(scope::derived::<T>), T::depth);
        self.add(TypeId::of::<T>(), store)
    }

    /// Next comes a table like [`Builder::derived`], whose rows are demanded by the rows of an input table: every row
    /// that exists in `S` demands the row that `key` names, if any. `key` must be a pure function.
    pub fn derived_for_each<T: Derived, S: Input>(
        self,
        key: impl Fn(&S::Key) -> Option<T::Key> + Send + 'static,
    ) -> Self {
        self.derived::<T>().for_each::<T, S>(key)
    }

    /// The rows of one more input table demand rows of `T`, which is registered already, as `S` is before it.
    pub fn for_each<T: Derived, S: Input>(mut self, key: impl Fn(&S::Key) -> Option<T::Key> + Send + 'static) -> Self {
        let place = |marker: TypeId| self.places.get(marker);
        let (target, source) = (place(TypeId::of::<T>()), place(TypeId::of::<S>()));
        assert!(
            source.is_some() && source < target,
            "rows of `{}` may not demand `{}`: `{1}` must be registered after `{0}`",
            S::NAME,
            T::NAME
        );
        self.table_mut::<S>().add_hook(Box::new(move |core, source, exists| {
            let Some(key) = key(source) else { return };
            let (node, _) = core.table::<T>().1.node(core, &key);
            let mut graph = core.graph.borrow_mut();
            if exists {
                graph.add_demand(node);
            } else {
                graph.drop_demand(node);
            }
        }));
        self
    }

    /// Next come groups.
    pub fn group<G: Group>(self) -> Self {
        let store = GroupStore::<G>::new(self.place());
        self.add(TypeId::of::<G>(), store)
    }

    /// Next come tables and groups that refer to each other in both directions. They settle together, depth by depth and
    /// at each depth in the order of registration: a row may read whatever of them has a strictly lower depth, or the
    /// same and is registered before; and demand and emit into whatever has a strictly greater depth, or the same and is
    /// registered after.
    pub fn layered(self, tables: impl FnOnce(Self) -> Self) -> Self {
        let first = self.place();
        let mut all = tables(self);
        all.layers[first as usize..].fill(first);
        all
    }

    /// Has [`Engine::take_changes`] tell what changed in a table that is registered already.
    pub fn track<T: Table>(mut self) -> Self {
        self.table_mut::<T>().track();
        self
    }

    /// The engine, empty.
    ///
    /// From the first one on, a panic in a computation is not printed by the process's panic hook; all others are.
    pub fn build(self) -> Engine {
        crate::fault::install_hook();
        Engine::new(Core::new(self.stores, &self.layers, self.places))
    }
}
