//! Expands a root route with everything below it into the matches that it serves, one chain of routes after the other.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::matching::{Below, Match, Specificity};
use super::model::{Delegate, Name, Policy, Route, Rule, World};
use super::{Answer, Settings, Step, Taken};

/// A match that is served.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) request: Match,
    pub(super) taken: Taken,
}

/// Matches that stand together, in this order, and where.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) place: Place,
    pub(super) entries: Vec<Entry>,
}

/// Where a match stands among those of its hostname: the smallest goes first.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    specificity: Specificity,
    root: (String, String),
    weight: Reverse<i32>,
    leaf: (String, String),
    rule: usize,
    matching: usize,
    /// It gives way to all that is equal otherwise.
    behind: bool,
    /// The matches above it, the nearest first, and nothing at the end. Of two ways to one match the policies of the narrower hold.
    within: Vec<Result<Specificity, ()>>,
    /// The routes and rules from the root on.
    way: Vec<(Name, usize)>,
}

/// What a tree has in common.
pub(super) struct Tree<'a> {
    pub(super) world: &'a World,
    pub(super) settings: &'a Settings,
    pub(super) root: &'a Route,
    /// How many matches were rendered so far.
    pub(super) count: usize,
}

/// One match of one rule of one route, as it is reached.
struct At<'a> {
    route: &'a Route,
    rule: &'a Rule,
    index: usize,
    matching: usize,
    /// The routes above.
    above: Vec<(&'a Route, Step)>,
    policies: Vec<&'a Policy>,
    /// What it takes, all ancestors counted.
    merged: Match,
    /// How much the matches above ask for.
    within: Vec<Result<Specificity, ()>>,
}

/// More matches than the bound.
struct TooMany;

/// Whom a rule delegates to.
#[derive(Default)]
struct Selected<'a> {
    /// With the place of the reference.
    children: Vec<(usize, &'a Route)>,
    /// References that select nobody.
    missing: Vec<String>,
    /// Children that were left out.
    left_out: Vec<String>,
}

impl<'a> Tree<'a> {
    /// All that the root serves.
    pub(super) fn expand(mut self) -> Vec<Item> {
        let mut items = Vec::new();
        for (index, rule) in self.root.rules.iter().enumerate() {
            for (matching, merged) in rule.matches.iter().enumerate() {
                let merged = merged.clone();
                let (above, policies) = (Vec::new(), self.policies(&[], self.root, rule));
                let at = At { route: self.root, rule, index, matching, above, policies, merged, within: vec![Err(())] };
                match self.items(&at) {
                    Ok(more) => items.extend(more),
                    Err(TooMany) => items.extend(self.leaf(&at, &Answer::DirectResponse(500), "over the bound")),
                }
            }
        }
        items
    }

    fn policies(&self, above: &[&'a Policy], route: &'a Route, rule: &'a Rule) -> Vec<&'a Policy> {
        above.iter().copied().chain(self.world.policy(route, rule)).collect()
    }

    /// What one match serves.
    fn items(&mut self, at: &At<'a>) -> Result<Vec<Item>, TooMany> {
        let (rule, broken) = (at.rule, Answer::DirectResponse(500));
        self.count += 1;
        if self.count > self.settings.matches {
            return Err(TooMany);
        }
        if rule.broken {
            return Ok(self.leaf(at, &broken, "the rule mixes children and backends, or filters its children"));
        }
        if !rule.delegates.is_empty() {
            // The rule itself renders nothing.
            self.count -= 1;
            let before = self.count;
            return self.delegate(at).or_else(|TooMany| {
                self.count = before + 1;
                Ok(self.leaf(at, &Answer::DirectResponse(500), "more matches than the bound"))
            });
        }
        if rule.redirects {
            return Ok(self.leaf(at, &Answer::Redirect, "its filter redirects"));
        }
        let allowed = |backend: &&super::model::Backend| {
            let parts = [&backend.kind, &backend.name.namespace, &backend.name.name];
            let fits = |allowed: &[Option<String>; 3]| {
                allowed.iter().zip(parts).all(|(asked, part)| asked.as_ref().is_none_or(|asked| asked == part))
            };
            let admits = |policy: &&Policy| policy.backends.as_ref().is_none_or(|allowed| allowed.iter().any(fits));
            at.policies.iter().all(admits)
        };
        let used: Vec<_> = rule.backends.iter().filter(|backend| backend.weight > 0).collect();
        let sound = used.iter().filter(|backend| self.world.serves(&at.route.name.namespace, backend));
        let names: BTreeSet<String> = sound.copied().filter(allowed).map(|backend| backend.name.to_string()).collect();
        if names.is_empty() {
            return Ok(self.leaf(at, &broken, "no backend of the rule can be used"));
        }
        let all: BTreeSet<String> = used.iter().map(|backend| backend.name.to_string()).collect();
        let answer = Answer::Backends { broken_share: names != all, names };
        Ok(self.leaf(at, &answer, "its rule"))
    }

    /// The match with one answer.
    fn leaf(&self, at: &At<'a>, answer: &Answer, why: &str) -> Vec<Item> {
        at.merged.parts().into_iter().map(|part| self.item(at, part, answer.clone(), why)).collect()
    }

    fn item(&self, at: &At<'a>, part: Match, answer: Answer, why: &str) -> Item {
        let step = Step { route: at.route.name.clone(), rule: at.index, matching: at.matching };
        let chain: Vec<_> = at.above.iter().map(|(_, step)| step.clone()).chain([step]).collect();
        let why = format!("{part}: {why}");
        let place = self.place(at, &part);
        Item { place, entries: vec![Entry { request: part, taken: Taken { chain, answer, why } }] }
    }

    fn place(&self, at: &At<'a>, part: &Match) -> Place {
        let age = |route: &Route| (route.created.clone(), route.name.to_string());
        Place {
            specificity: part.specificity(),
            root: age(self.root),
            weight: Reverse(at.route.weight),
            leaf: age(at.route),
            rule: at.index,
            matching: at.matching,
            behind: false,
            within: at.within.clone(),
            way: at
                .above
                .iter()
                .map(|(_, step)| (step.route.clone(), step.rule))
                .chain([(at.route.name.clone(), at.index)])
                .collect(),
        }
    }

    /// What the children of a match serve, and what is left to the match itself.
    fn delegate(&mut self, at: &At<'a>) -> Result<Vec<Item>, TooMany> {
        let Selected { mut children, missing, left_out } = self.select(at);
        let policy = self.world.policy(at.route, at.rule);
        let by_weight = policy.is_some_and(|policy| policy.by_weight);
        if by_weight {
            children.sort_by_key(|(position, child)| {
                (Reverse(child.weight), *position, child.created.clone(), child.name.to_string())
            });
        }
        let (mut groups, mut serves, mut faulty, mut unreachable) = (Vec::new(), false, false, false);
        let depth = at.above.len() + 1;
        for (_, child) in &children {
            let fault = if child.hostnames.is_empty() {
                (depth > self.settings.depth).then_some("the child stands deeper than the bound")
            } else {
                Some("the child sets hostnames")
            };
            faulty |= fault.is_some();
            for (index, rule) in child.rules.iter().enumerate() {
                for (matching, written) in rule.matches.iter().enumerate() {
                    let merged = match written.below(&at.merged, child.inherits) {
                        Below::Fits(merged) => merged,
                        Below::Outside => continue,
                        Below::Unreachable => {
                            unreachable = true;
                            continue;
                        }
                    };
                    let step = Step { route: at.route.name.clone(), rule: at.index, matching: at.matching };
                    let above = at.above.iter().cloned().chain([(at.route, step)]).collect();
                    let policies = self.policies(&at.policies, child, rule);
                    let within = [Ok(at.merged.specificity())].into_iter().chain(at.within.iter().cloned()).collect();
                    let below = At { route: child, rule, index, matching, above, policies, merged, within };
                    groups.push(match fault {
                        Some(why) => {
                            self.count += 1;
                            self.leaf(&below, &Answer::DirectResponse(500), why)
                        }
                        None => {
                            serves = true;
                            self.items(&below)?
                        }
                    });
                }
            }
        }
        let own = if !missing.is_empty() {
            Some((500, format!("nobody is selected by {}", missing.join(", "))))
        } else if unreachable {
            Some((500, "children cannot lie below a match that is not a prefix".to_owned()))
        } else if children.is_empty() {
            Some((500, format!("no child is left: {}", left_out.join(", "))))
        } else if faulty && !serves {
            Some((500, "no child serves, and one has a fault".to_owned()))
        } else if !serves {
            Some((404, "no match of a child lies inside".to_owned()))
        } else {
            None
        };
        let mut own = own.map_or(Vec::new(), |(status, why)| self.leaf(at, &Answer::DirectResponse(status), &why));
        self.count += own.len().min(1);
        if by_weight {
            let mut entries = Vec::new();
            for mut group in groups {
                group.sort_by(|one, other| one.place.cmp(&other.place));
                entries.extend(group.into_iter().flat_map(|item| item.entries));
            }
            entries.extend(own.into_iter().flat_map(|item| item.entries));
            return Ok(vec![Item { place: self.place(at, &at.merged), entries }]);
        }
        let mut items: Vec<Item> = groups.into_iter().flatten().collect();
        for item in &mut own {
            let equal = items.iter().filter(|other| other.place.specificity == item.place.specificity);
            if let Some(last) = equal.map(|other| &other.place).max().filter(|last| **last >= item.place) {
                item.place = Place { behind: true, ..last.clone() };
            }
        }
        items.extend(own);
        Ok(items)
    }

    fn select(&self, at: &At<'a>) -> Selected<'a> {
        let mut selected = Selected::default();
        // By position stand those that are named; all others come behind them.
        let position = |child: &Route| {
            let names = |delegate: &Delegate| matches!(delegate, Delegate::Named(name) if *name == child.name);
            at.rule.delegates.iter().position(names).unwrap_or(usize::MAX)
        };
        for delegate in &at.rule.delegates {
            let mut found: Vec<&'a Route> =
                self.world.routes.iter().filter(|route| self.means(delegate, at, route)).collect();
            found.sort_by_key(|route| (&route.created, route.name.to_string()));
            if found.is_empty() {
                selected.missing.push(format!("{delegate:?}"));
            }
            for child in found {
                let in_chain =
                    child.name == at.route.name || at.above.iter().any(|(route, _)| route.name == child.name);
                let refused = |policy: &&Policy| {
                    policy.namespaces.as_ref().is_some_and(|allowed| !allowed.contains(&child.name.namespace))
                };
                if in_chain {
                    selected.left_out.push(format!("{} closes a cycle", child.name));
                } else if at.policies.iter().any(refused) {
                    selected.left_out.push(format!("{} is not allowed", child.name));
                } else if selected.children.iter().all(|(_, known)| known.name != child.name) {
                    selected.children.push((position(child), child));
                }
            }
        }
        selected
    }

    /// Whether a reference selects a route, which has to consent. A route that closes a cycle is in the chain already, so
    /// by name it is found in any case.
    fn means(&self, delegate: &Delegate, at: &At<'a>, route: &Route) -> bool {
        let in_chain = |name: &Name| *name == at.route.name || at.above.iter().any(|(above, _)| above.name == *name);
        let itself = route.name == at.route.name;
        let consents = route.consents(at.route, at.rule, self.settings.explicit_across_namespaces);
        match delegate {
            Delegate::Named(name) => route.name == *name && (consents || in_chain(name)),
            Delegate::Namespace(namespace) => !itself && consents && route.name.namespace == *namespace,
            Delegate::Labelled(label, namespace) => {
                let here = *namespace == self.settings.everywhere || route.name.namespace == *namespace;
                !itself && consents && here && route.label.as_ref() == Some(label)
            }
        }
    }
}
