//! What `plimsoll check` learns about machines: which of them are reached, and what is there.

use std::thread::ScopedJoinHandle;

use super::*;

/// How long a machine may take to be reached. SSH waits for 15 s.
const REACH_MAX: Nanos = 20 * SECOND;

/// A machine that was to be reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Surveyed {
    /// Its name in the experiment.
    pub name: String,
    /// What is there, or why it was not reached.
    pub found: Result<Found, String>,
}

/// What is known about a machine that was reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The name of its host.
    pub host: String,
    /// The version of Plimsoll there.
    pub version: String,
    /// Its processors.
    pub cpus: u32,
    /// Its time of day minus ours, and how well that is known, in seconds.
    pub clock_s: (f64, f64),
}

impl Hub {
    /// Reaches all machines at once, each as far as it can be reached. Returns also what is wrong with fleets of agents.
    ///
    /// # Errors
    /// How it ended: the user stopped it, or this host cannot reach any machine.
    pub fn survey(
        members: Vec<Member>,
        run: &str,
        sources: &'static [SourceKind],
        say: &mut dyn FnMut(&str),
        interrupted: &'static AtomicBool,
    ) -> Result<(Hub, Problems), Ending> {
        let (members, problems) = expand_all(members, interrupted)?;
        let hub = Hub::open(members, false, run, sources, REACH_MAX, interrupted)?;
        hub.shared.wait(WaitFor::Work, Some(say), |inner| {
            let is_open = |machine: &Machine| !machine.has_clock() && !machine.is_lost();
            (!inner.fleet.machines().iter().any(is_open)).then_some(())
        })?;
        Ok((hub, problems))
    }

    /// What is known about each machine, in the order of the experiment.
    pub fn surveyed(&self) -> Vec<Surveyed> {
        let inner = lock(&self.shared.inner);
        let surveyed = |machine: &Machine| {
            let found = match (&machine.state, &machine.host, machine.offset()) {
                (State::Lost(why), ..) => Err(why.clone()),
                (_, Some(host), Some(offset)) => Ok(Found {
                    host: host.name.clone(),
                    version: host.plimsoll.clone(),
                    cpus: host.cpus,
                    clock_s: (machine.clock_offset_s(), offset.uncertainty as f64 / 1e9),
                }),
                _ => Err("it did not answer".into()),
            };
            Surveyed { name: machine.name.clone(), found }
        };
        inner.fleet.machines().iter().map(surveyed).collect()
    }
}

/// The members with the agents of their fleets, which are asked at once, and what is wrong with fleets.
fn expand_all(members: Vec<Member>, interrupted: &AtomicBool) -> Result<(Vec<Member>, Problems), Ending> {
    let expanded: Vec<Result<Vec<Member>, Ending>> = std::thread::scope(|scope| {
        let begin = |member: Member| {
            let is_fleet = matches!(member.address.reach, Reach::Fleet(_));
            let of_fleet = member.clone();
            let expand = move || crate::nats::bus::expand(vec![of_fleet], &mut |_| {}, interrupted);
            (member, is_fleet.then(|| scope.spawn(expand)))
        };
        // All begin before the first is waited for.
        let begun: Vec<_> = members.into_iter().map(begin).collect();
        let panicked = |_| Err(Ending::Failed("the agents of a fleet could not be asked".into()));
        let end = |(member, thread): (Member, Option<ScopedJoinHandle<'_, _>>)| match thread {
            Some(thread) => thread.join().unwrap_or_else(panicked),
            None => Ok(vec![member]),
        };
        begun.into_iter().map(end).collect()
    });
    let (mut all, mut problems) = (Vec::new(), Problems::new());
    for result in expanded {
        match result {
            Ok(members) => all.extend(members),
            Err(Ending::Failed(why)) => problems.push(Problem::new(why, "")),
            Err(ending) => return Err(ending),
        }
    }
    // Names of agents may be those of other machines.
    Ok((crate::nats::bus::expand(all, &mut |_| {}, interrupted)?, problems))
}
