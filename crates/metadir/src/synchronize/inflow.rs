//! The flow of values into an object of the metaverse, attribute by attribute.

use super::Settings;
use super::failed::Failed;
use super::trace::{Offer, TraceEvent};
use super::unique::Chosen;
use crate::agent::Names;
use crate::hologram::{Attribute, Builder, Opened};
use crate::object::{AgentId, CsId, Lineage, LineageBuilder};
use crate::rules::{AttributeRules, Flow, FlowSource, Rules};
use crate::schema::Type;
use crate::store::FailureKind;

/// The new image of a metaverse object, while the flows of an agent are applied. Synchronization spends its time in
/// [`Inflow::attribute`], which is inlined; the rest is kept out of its loop.
pub(super) struct Inflow<'a> {
    pub(super) rules: &'a Rules,
    pub(super) names: &'a Names,
    pub(super) settings: &'a Settings,
    pub(super) agent: AgentId,
    /// The values that were chosen among candidates.
    pub(super) chosen: &'a [Chosen],
    /// The connectors of the object, in ascending order, each with the index of its rules and its image.
    pub(super) connectors: &'a [(CsId, usize, Opened<'a>)],
    pub(super) old: Opened<'a>,
    pub(super) builder: &'a mut Builder,
    pub(super) lineage: &'a mut LineageBuilder,
    pub(super) trace: Option<&'a mut Vec<TraceEvent>>,
}

/// A flow with the connector that it reads.
#[derive(Clone, Copy)]
struct Contribution<'a> {
    flow: &'a Flow,
    rules: &'a AttributeRules,
    /// The rank of the flow among those of the attribute.
    rank: usize,
    image: &'a Opened<'a>,
    from: Lineage,
}

impl Inflow<'_> {
    /// Adds the values of an attribute. `line` is the lineage of its old ones.
    #[inline(always)]
    pub(super) fn attribute(&mut self, rules: &AttributeRules, line: Option<Lineage>) -> Result<(), Failed> {
        match self.copy(rules, line) {
            true => Ok(()),
            false => self.choose(rules, line),
        }
    }

    /// Adds the values of an attribute if one flow of the agent copies them from the only connector.
    #[inline(always)]
    fn copy(&mut self, rules: &AttributeRules, line: Option<Lineage>) -> bool {
        let ([(connector, by, image)], Some(copied)) = (self.connectors, rules.copied) else { return false };
        if *by != copied.inbound || copied.agent != self.agent || self.trace.is_some() {
            return false;
        }
        let Some(values) = image.get(copied.from).filter(|values| rules.several || values.count() == 1)
        else {
            return false;
        };
        let attribute = rules.attribute;
        let from =
            Lineage { attribute, agent: self.agent, cs: *connector, at_unix_s: self.settings.now_unix_s };
        self.lineage.push(kept(line, from, || self.old.get(attribute) == Some(values)));
        self.builder.push_values(attribute, values);
        true
    }

    /// Adds the values of an attribute from the first contributor that has any.
    #[inline(never)]
    fn choose(&mut self, rules: &AttributeRules, line: Option<Lineage>) -> Result<(), Failed> {
        let concerns = |(place, _): &(usize, usize)| self.rules.inbound[*place].agent == self.agent;
        // The agent may have given it by a flow that is not in the rules any more.
        let was_given = || line.is_some_and(|line| line.agent == self.agent);
        if !rules.contributors.iter().any(concerns) && !was_given() {
            self.keep(rules, line);
            return Ok(());
        }
        let mut is_given = false;
        for (rank, (place, number)) in rules.contributors.iter().enumerate() {
            is_given |= self.contributor(rules, line, rank, (*place, *number), is_given)?;
            if is_given && self.trace.is_none() {
                return Ok(());
            }
        }
        if !is_given
            && let (Some(line), Some(values)) = (line, self.old.get(rules.attribute))
            && self.is_kept(&line, rules)
        {
            self.builder.push_values(rules.attribute, values);
            self.lineage.push(line);
        }
        Ok(())
    }

    /// Keeps the values of an attribute that the agent has no part in.
    fn keep(&mut self, rules: &AttributeRules, line: Option<Lineage>) {
        let attribute = rules.attribute;
        let Some(values) = self.old.get(attribute) else { return };
        self.builder.push_values(attribute, values);
        line.into_iter().for_each(|line| self.lineage.push(line));
        // A number of references comes from no agent.
        if line.is_some() {
            let agent = line.map(|line| line.agent);
            self.trace(|_| TraceEvent::Kept { attribute, values: values.to_vec(), agent });
        }
    }

    /// Applies a flow of `place` (the rules, and the flow in them) to each connector of these rules. Returns whether it
    /// gave values. `is_given` says whether another flow did.
    fn contributor(
        &mut self,
        rules: &AttributeRules,
        line: Option<Lineage>,
        rank: usize,
        (place, number): (usize, usize),
        mut is_given: bool,
    ) -> Result<bool, Failed> {
        let inbound = &self.rules.inbound[place];
        let flow = &inbound.flows[number];
        let attribute = rules.attribute;
        let of_rules = || self.connectors.iter().filter(|(_, taken_by, _)| *taken_by == place);
        if self.connectors.len() > 1
            && !inbound.multiple_connectors
            && !is_given
            && of_rules().nth(1).is_some()
        {
            return Err(several_connectors(self.names, attribute));
        }
        for (connector, _, image) in of_rules() {
            let (agent, at_unix_s) = (inbound.agent, self.settings.now_unix_s);
            let from = Lineage { attribute, agent, cs: *connector, at_unix_s };
            let contribution = Contribution { flow, rules, rank, image, from };
            if flow.candidates.is_some() {
                is_given |= self.candidate(contribution, line, (place, number), is_given);
            } else if is_given {
                self.trace(|inflow| inflow.loser(contribution, line));
            } else {
                let begin = self.builder.as_bytes().len();
                let (builder, lineage) = (&mut *self.builder, &mut *self.lineage);
                let given = give(contribution, self.names, &self.old, line, builder, lineage);
                self.trace(|inflow| Offer::of(rules, rank, from).event(&given, inflow.builder, begin, false));
                is_given = given.map_err(|failed| failed.to(attribute))?;
            }
            if is_given && self.trace.is_none() {
                break;
            }
        }
        Ok(is_given)
    }

    /// Adds the value that was chosen among candidates. Returns whether there is one.
    fn candidate(
        &mut self,
        contribution: Contribution<'_>,
        line: Option<Lineage>,
        (place, number): (usize, usize),
        is_given: bool,
    ) -> bool {
        let Contribution { rules, rank, from, .. } = contribution;
        let is_it = |(of, by, cs, _): &&Chosen| (*of, *by, *cs) == (place, number, from.cs);
        let value = self.chosen.iter().find(is_it).and_then(|(.., value)| value.as_deref());
        let begin = self.builder.as_bytes().len();
        if let Some(value) = value.filter(|_| !is_given) {
            let is_same = || self.old.first(rules.attribute) == Some(value.as_bytes());
            self.lineage.push(kept(line, from, is_same));
            self.builder.push(rules.attribute, value.as_bytes());
        }
        let given = Ok(value.is_some());
        self.trace(|inflow| Offer::of(rules, rank, from).event(&given, inflow.builder, begin, is_given));
        value.is_some()
    }

    /// Adds an event, if someone wants them.
    #[inline(always)]
    fn trace(&mut self, event: impl FnOnce(&Self) -> TraceEvent) {
        if self.trace.is_some() {
            self.push_event(event);
        }
    }

    /// Adds an event. A run has no trace: this code is kept out of the loop.
    #[cold]
    #[inline(never)]
    fn push_event(&mut self, event: impl FnOnce(&Self) -> TraceEvent) {
        let event = event(self);
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.push(event);
        }
    }

    /// For an explanation: what a flow would give that is not precedent.
    fn loser(&self, contribution: Contribution<'_>, line: Option<Lineage>) -> TraceEvent {
        let (mut builder, mut lineage) = (Builder::default(), LineageBuilder::default());
        let would = give(contribution, self.names, &self.old, line, &mut builder, &mut lineage);
        let Contribution { rules, rank, from, .. } = contribution;
        Offer::of(rules, rank, from).event(&would, &builder, 0, true)
    }

    /// Whether a value stays although nothing gives it any more: its agent does not recall values, and its
    /// object is disconnected or the flow is not in the rules any more.
    fn is_kept(&self, line: &Lineage, rules: &AttributeRules) -> bool {
        let recalls = match self.rules.agent(line.agent) {
            Some(agent) => agent.recall,
            None => self.settings.recalls_removed,
        };
        let contributes = |(place, _): &(usize, usize)| self.rules.inbound[*place].agent == line.agent;
        !recalls
            && (!rules.contributors.iter().any(contributes)
                || self.connectors.iter().all(|(id, ..)| *id != line.cs))
    }
}

/// The lineage of given values: the old one if the connector gave the same values before.
#[inline(always)]
fn kept(line: Option<Lineage>, from: Lineage, is_same: impl FnOnce() -> bool) -> Lineage {
    match line {
        Some(line) if line.cs == from.cs && is_same() => line,
        _ => from,
    }
}

/// Several connectors of an agent would give an attribute.
#[cold]
fn several_connectors(names: &Names, attribute: Attribute) -> Failed {
    let why = format!(
        "`{}` would come from several connectors of one agent: ambiguous-import-flow-from-multiple-connectors",
        names.name(attribute)
    );
    Failed::Flow(attribute, why)
}

/// A flow gives several values to an attribute that takes one.
#[cold]
fn several_values(names: &Names, attribute: Attribute, count: usize) -> Failed {
    let why = format!("`{}` takes one value, not {count}", names.name(attribute));
    Failed::Object(FailureKind::Flow, why)
}

/// Adds the values that a flow gives to an attribute. Returns false if there are none.
fn give(
    contribution: Contribution<'_>,
    names: &Names,
    old: &Opened<'_>,
    line: Option<Lineage>,
    builder: &mut Builder,
    lineage: &mut LineageBuilder,
) -> Result<bool, Failed> {
    let Contribution { flow, rules, image, from, .. } = contribution;
    let attribute = rules.attribute;
    // Most values are text that is copied unchanged.
    if let (FlowSource::Direct(source), Type::Text) = (&flow.from, rules.kind) {
        let Some(values) = image.get(*source) else { return Ok(false) };
        let count = values.count();
        if count > 1 && !rules.several {
            return Err(several_values(names, attribute, count));
        }
        builder.push_values(attribute, values);
        lineage.push(kept(line, from, || old.get(attribute) == Some(values)));
        return Ok(true);
    }
    let wrong = |why: String| Err(Failed::Object(FailureKind::Flow, why));
    if let (FlowSource::Direct(source), Type::Reference) = (&flow.from, rules.kind) {
        // References are separate rows and not a part of the image.
        let count = image.get(*source).map_or(0, |values| values.count_of_digest());
        return match count > 1 && !rules.several {
            true => wrong(format!("`{}` refers to one object, not {count}", names.name(attribute))),
            false => Ok(false),
        };
    }
    let fitted = flow
        .values(image)
        .map_err(|failed| failed.to_string())
        .and_then(|values| rules.fitted(values, names.name(attribute)));
    let values = match fitted {
        Ok(values) => values,
        Err(why) => return wrong(why),
    };
    if values.is_empty() {
        return Ok(false);
    }
    let is_same = || old.get(attribute).is_some_and(|old| old.iter().eq(values.iter().map(Vec::as_slice)));
    lineage.push(kept(line, from, is_same));
    builder.push_all(attribute, &mut values.iter().map(Vec::as_slice).collect());
    Ok(true)
}
