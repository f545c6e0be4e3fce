//! The real laboratory: scenarios of [`scenario`](mod@crate::scenario), run in the world, with the bugs
//! of [`plant`].

use crate::lab::{Bug, Burden, Finished, Laboratory, NoSuchBug, RunOptions};
use crate::plant::{self, Plant};
use crate::random::Random;
use crate::run::{self, Run};
use crate::scenario::{Bias, DrawOptions, MetastoreKind, Scenario, schema};

/// The real laboratory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Narad;

/// Mistakes that the abstract log does not have.
const RAFTS: [&str; 2] = ["c41", "c42"];

impl Laboratory for Narad {
    type Scenario = Scenario;

    fn parse(&self, text: &str, name: &str) -> Result<Scenario, String> {
        Scenario::parse(text, name).map_err(|error| error.to_string())
    }

    fn draw(&self, seed: u64, options: &DrawOptions) -> Scenario {
        let mut scenario = Scenario::draw(&mut Random::root(seed).branch("draw"), options);
        scenario.head.seed = seed;
        scenario
    }

    fn text(&self, scenario: &Scenario) -> String {
        scenario.to_toml()
    }

    fn name<'a>(&self, scenario: &'a Scenario) -> &'a str {
        &scenario.head.name
    }

    fn seed(&self, scenario: &Scenario) -> u64 {
        scenario.head.seed
    }

    fn metastore(&self, scenario: &Scenario) -> MetastoreKind {
        scenario.cluster.metastore
    }

    fn adjust(&self, scenario: &mut Scenario, seed: u64, metastore: Option<MetastoreKind>) {
        scenario.head.seed = seed;
        if let Some(metastore) = metastore {
            scenario.cluster.metastore = metastore;
        }
    }

    fn explicit(&self, scenario: &Scenario, seed: u64) -> Option<Scenario> {
        // The branch that the world plans with, so that the same faults come at the same times.
        let planned = scenario.planned(&mut Random::root(seed).branch("plan"));
        (planned != *scenario).then_some(planned)
    }

    fn shrinks(&self, scenario: &Scenario) -> Vec<Scenario> {
        scenario.shrinks().collect()
    }

    fn burden(&self, scenario: &Scenario) -> Burden {
        let chance = Scenario { steps: Vec::new(), ..scenario.clone() };
        let nodes = scenario.cluster.nodes.saturating_add(scenario.cluster.spares);
        Burden {
            steps: scenario.steps.len(),
            rates: chance.classes().len(),
            nodes: usize::try_from(nodes).unwrap_or(usize::MAX),
        }
    }

    fn schema(&self) -> String {
        schema()
    }

    fn run(&self, scenario: &Scenario, options: RunOptions<'_>) -> Finished {
        let RunOptions { seed, watch, stop, pulse } = options;
        let options = run::RunOptions { seed: Some(seed), watch, stop, pulse: Some(pulse) };
        let Run { summary, complete, .. } = run::run(scenario, options);
        Finished { summary, complete }
    }

    fn bugs(&self) -> Vec<Bug> {
        if plant::is_possible() { plant::all().map(Bug::from).collect() } else { Vec::new() }
    }

    fn plant(&self, name: Option<&str>) -> Result<(), NoSuchBug> {
        sow(name)
    }

    fn hint(&self, bug: &str, number: u64) -> Option<Scenario> {
        let biases = plant::find(bug)?.bias;
        // One after the other, so that each has its turn early; of a pair of tries the first.
        let turn = usize::try_from(number / 2).ok()?.checked_rem(biases.len())?;
        let bias = biases.get(turn).map(|bias| about(*bias));
        // What is wrong with Raft, or with how it is used, shows only with it.
        let metastore = RAFTS.contains(&plant::find(bug)?.number()).then_some(MetastoreKind::Raft);
        Some(self.draw(number, &DrawOptions { metastore, bias, ..DrawOptions::default() }))
    }
}

#[cfg(feature = "planted-bugs")]
fn sow(name: Option<&str>) -> Result<(), NoSuchBug> {
    let find = |name: &str| plant::find(name).ok_or_else(|| NoSuchBug(name.into()));
    plant::sow(name.map(find).transpose()?);
    Ok(())
}

#[cfg(not(feature = "planted-bugs"))]
fn sow(name: Option<&str>) -> Result<(), NoSuchBug> {
    name.map_or(Ok(()), |name| Err(NoSuchBug(name.into())))
}

impl From<&Plant> for Bug {
    fn from(plant: &Plant) -> Self {
        Self {
            name: plant.name.into(),
            removes: plant.removes.into(),
            place: plant.place.into(),
            invariants: plant.noticed_by.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

/// What a scenario is drawn about to have more of something.
const fn about(bias: plant::Bias) -> Bias {
    use plant::Bias as Of;
    match bias {
        Of::DuplicateCommands | Of::ForgedCommands | Of::LateFlip | Of::LostAnswers => Bias::Flip,
        Of::HeavyLoad | Of::OperatorMoves | Of::QuietEnd | Of::SlowCopy => Bias::Freeze,
        Of::DeadSource | Of::DeclaredLost | Of::LateAcks => Bias::Death,
        Of::DeadTarget | Of::Restarts => Bias::Restart,
        Of::PowerLoss | Of::StaleDisk => Bias::Power,
        Of::DiskErrors | Of::SlowDisk => Bias::Disk,
        Of::CutSource | Of::GarbledCopies | Of::SlowNetwork => Bias::Network,
        Of::OldMessages => Bias::Museum,
        Of::LeaderChanges | Of::SlowApply | Of::Snapshots => Bias::Leader,
        Of::Decommission | Of::Joins => Bias::Membership,
        Of::Retention | Of::TopicChurn => Bias::Topics,
        Of::PolicyChanges | Of::TightTiming => Bias::Clock,
    }
}
