//! Rules of the targets of policies.

use super::Broken;
use crate::{
    group::GROUP,
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector},
    schema::Cel,
};

pub(crate) const HTTP_ROUTE_REFS: Cel = Cel {
    path: "spec.targetRefs",
    rule: "self.all(target, target.group == 'gateway.networking.k8s.io' && target.kind == 'HTTPRoute')",
    message: "must be HTTPRoute of group gateway.networking.k8s.io",
};
pub(crate) const HTTP_ROUTE_SELECTORS: Cel = Cel { path: "spec.targetSelectors", ..HTTP_ROUTE_REFS };

/// Whether a policy may apply to a group and kind.
pub(crate) type Allows = fn(group: &str, kind: &str) -> bool;

pub(crate) const HTTP_ROUTE: Allows = |group, kind| group == GROUP && kind == "HTTPRoute";

pub(crate) fn targets(
    refs: &[LocalPolicyTargetReference],
    selectors: &[LocalPolicyTargetSelector],
    allows: Allows,
    message: &str,
    broken: &mut Broken,
) {
    let refs = refs.iter().map(|target| (&target.group, &target.kind)).enumerate();
    let selectors = selectors.iter().map(|target| (&target.group, &target.kind)).enumerate();
    let all = refs.map(|one| ("targetRefs", one)).chain(selectors.map(|one| ("targetSelectors", one)));
    for (list, (index, (group, kind))) in all {
        if !allows(group, kind) {
            broken.add(format!("spec.{list}[{index}].kind"), format_args!("{kind} of group {group}"), message);
        }
    }
}

/// Targets of a policy that holds for all of an object.
pub(crate) fn no_sections(
    refs: &[LocalPolicyTargetReference],
    selectors: &[LocalPolicyTargetSelector],
    message: &str,
    broken: &mut Broken,
) {
    let refs = refs.iter().map(|target| &target.section_name).enumerate();
    let selectors = selectors.iter().map(|target| &target.section_name).enumerate();
    let all = refs.map(|one| ("targetRefs", one)).chain(selectors.map(|one| ("targetSelectors", one)));
    for (list, (index, section)) in all {
        if let Some(section) = section.as_ref().filter(|section| !section.is_empty()) {
            broken.add(format!("spec.{list}[{index}].sectionName"), section, message);
        }
    }
}
