//! What waits for Envoy's word before it is sent.
//!
//! A [`Gate`] stands beside a translator of which Envoy is asked first ([`Translator::set_strict`]). After each settling it looks
//! at what changed of what is offered, and at that about which a word turned; says what has to be judged, and writes what was: into
//! tables, like objects, so that the same objects and the same words give the same bytes.
//!
//! * A **tree of routes** goes as a whole: all of its rules as they were, or all as they are, with the clusters that they need.
//!   A row that is refused is replaced, like any other that Envoy could not read, and what stands in its place is judged too.
//! * A **cluster** or an extension's entry goes by itself. One that is refused is left out, and rules that need it answer 500.
//! * **Listeners**, and what policies say for a whole Gateway, are sent as they were, until they are judged, and with them each
//!   tree that changed at the same time. What a Gateway says and what its routes leave to it change together; in between nobody
//!   would ask for a token.
//!
//! What goes waits for nobody: of what was cleared no more is sent than what is offered permits (`limits`). Who waits for longer
//! than he may, waits no more ([`Bounds`]).

mod asking;
mod candidates;
mod gate;
mod limits;
mod parts;
mod roots;
mod rows;
mod told;
mod waiters;
mod wide;

pub use asking::{Bounds, NOTICED, Word};
pub use gate::{Gate, Held};
pub use waiters::{Asked, FragmentId, Wanted};

use ir::NsName;

use crate::{
    Translator,
    tables::input::{JudgeUnavailable, Strict, VersionsNotJudged},
};

impl Translator {
    /// Has nothing be sent but what a [`Gate`] has cleared. Before anything was read.
    pub fn set_strict(&mut self) {
        self.engine_mut().set::<Strict>((), Some(()));
    }

    /// Why no Envoy can be asked at the moment; none while one can. Whether that turned.
    pub fn set_judge_unavailable(&mut self, why: Option<String>) -> bool {
        self.engine_mut().set::<JudgeUnavailable>((), why.map(Into::into))
    }

    /// Which proxies of a Gateway are of another version than the Envoy that judges; none where all are of that. Whether that
    /// turned.
    pub fn set_version_not_judged(&mut self, gateway: &NsName, why: Option<String>) -> bool {
        self.engine_mut().set::<VersionsNotJudged>(gateway.clone(), why.map(Into::into))
    }
}
