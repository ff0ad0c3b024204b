//! A local policy: a batch policy together with its queue order and aging, in one name.

use std::fmt;
use std::str::FromStr;

use pliant_model::{ClusterNodes, Platform, Procs, Time};

use super::{Aging, CustomOrder, ORDERS, Order, Ordering, Ranking};
use crate::UnknownName;
use crate::batch::{self, BatchScheduler, Registered};

/// What decides on one cluster. Its name is that of the batch policy, followed by that of the queue order and the
/// aging where these are not the usual ones: `easy`, `easy/f1`, `easy/f1/none`, `fcfs/wfp3/7d`.
#[derive(Clone, Copy)]
pub struct LocalPolicy {
    batch: &'static Registered,
    ordering: Ordering,
}

impl LocalPolicy {
    /// The batch policy under that order.
    pub fn new(batch: &'static Registered, ordering: Ordering) -> Result<LocalPolicy, UnknownName> {
        if batch.ordered.is_none() && !ordering.order.is_first_come() {
            return Err(UnknownName {
                what: "queue order that its batch policy can serve",
                found: format!("{} under {}", ordering.order.name, batch.name),
                expected: vec!["first-come"],
            });
        }
        Ok(LocalPolicy { batch, ordering })
    }

    /// The batch policy.
    pub fn batch(&self) -> &'static Registered {
        self.batch
    }

    /// The queue order.
    pub fn ordering(&self) -> Ordering {
        self.ordering
    }

    /// The same with another order, or another aging, where one is given.
    pub fn with(
        self,
        order: Option<&'static Order>,
        aging: Option<Aging>,
    ) -> Result<LocalPolicy, UnknownName> {
        let ordering = Ordering {
            order: order.unwrap_or(self.ordering.order),
            aging: aging.unwrap_or(self.ordering.aging),
        };
        LocalPolicy::new(self.batch, ordering)
    }

    /// A cluster of that many processors under it, empty at that time.
    pub fn scheduler(&self, procs: Procs, now: Time) -> Box<dyn BatchScheduler> {
        match self.batch.ordered {
            Some(ordered) if !self.ordering.order.is_first_come() => {
                ordered(procs, Ranking::new(self.ordering, procs, now))
            }
            _ => (self.batch.new)(procs, now),
        }
    }

    /// A cluster of that many processors under its batch policy in a custom order, empty at that time.
    ///
    /// # Errors
    ///
    /// If the batch policy cannot serve queue orders.
    pub(crate) fn scheduler_by(
        &self,
        procs: Procs,
        now: Time,
        order: CustomOrder,
        aging: Aging,
    ) -> Result<Box<dyn BatchScheduler>, UnknownName> {
        let serving = || batch::REGISTRY.iter().filter(|one| one.ordered.is_some()).map(|one| one.name);
        let ordered = self.batch.ordered.ok_or_else(|| UnknownName {
            what: "batch policy that serves queue orders",
            found: self.batch.name.to_owned(),
            expected: serving().collect(),
        })?;
        Ok(ordered(procs, Ranking::custom(order, aging, procs, now)))
    }

    /// A cluster of these nodes under it, empty at that time.
    ///
    /// # Errors
    ///
    /// If the batch policy does not distinguish nodes, or cannot in this queue order.
    pub fn scheduler_on(
        &self,
        nodes: &ClusterNodes,
        now: Time,
    ) -> Result<Box<dyn BatchScheduler>, UnknownName> {
        let on_nodes = self.batch.on_nodes.filter(|_| self.ordering.order.is_first_come());
        let supporting = || batch::REGISTRY.iter().filter(|one| one.on_nodes.is_some()).map(|one| one.name);
        on_nodes.map(|new| new(nodes, now)).ok_or_else(|| UnknownName {
            what: "local policy for a cluster with nodes",
            found: self.to_string(),
            expected: supporting().collect(),
        })
    }
}

impl FromStr for LocalPolicy {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<LocalPolicy, UnknownName> {
        let mut words = text.splitn(3, '/');
        let batch = batch::by_name(words.next().unwrap_or_default())?;
        let order = Order::by_name(words.next().unwrap_or("first-come"))?;
        let aging = words.next().map_or(Ok(Aging::default()), str::parse)?;
        LocalPolicy::new(batch, Ordering { order, aging })
    }
}

impl fmt::Display for LocalPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LocalPolicy { batch, ordering: Ordering { order, aging } } = self;
        match (order.is_first_come(), *aging == Aging::default()) {
            (true, _) => f.write_str(batch.name),
            (false, true) => write!(f, "{}/{}", batch.name, order.name),
            (false, false) => write!(f, "{}/{}/{aging}", batch.name, order.name),
        }
    }
}

/// A change of the local policies of a platform: given parts replace the present ones.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct LocalPolicyChange {
    /// The batch policy, or a whole local policy.
    pub batch: Option<String>,
    /// The queue order.
    pub order: Option<String>,
    /// The aging.
    pub aging: Option<Aging>,
}

impl LocalPolicyChange {
    /// The platform with this change made to all its clusters.
    ///
    /// # Errors
    ///
    /// If a name is unknown, or a batch policy cannot serve the order, or aging is to change with
    /// the order of submission.
    pub fn made_to(&self, platform: &Platform) -> Result<Platform, UnknownName> {
        platform.with_batches(|present| self.changed(present))
    }

    /// The change to a local policy. A batch policy alone keeps the order and the aging; `easy/first-come` also changes
    /// the order.
    pub fn changed(&self, present: &str) -> Result<String, UnknownName> {
        let LocalPolicyChange { batch, order, aging } = self;
        let present: LocalPolicy = present.parse()?;
        let order = order.as_deref().map(Order::by_name).transpose()?;
        let local = match batch.as_deref() {
            None => present.with(order, *aging)?,
            Some(whole) if whole.contains('/') => whole.parse::<LocalPolicy>()?.with(order, *aging)?,
            Some(batch) => LocalPolicy { batch: batch::by_name(batch)?, ..present }.with(order, *aging)?,
        };
        if let Some(aging) = aging.filter(|_| local.ordering.order.is_first_come()) {
            let orders = ORDERS.iter().filter(|order| !order.is_first_come()).map(|order| order.name);
            return Err(UnknownName {
                what: "queue order other than first-come with an aging",
                found: format!("first-come with aging {aging}"),
                expected: orders.collect(),
            });
        }
        Ok(local.to_string())
    }
}

/// The name of the local policy given by the keys of a file; an error names the wrong key.
pub fn local_policy(
    batch: &str,
    order: Option<&str>,
    aging: Option<&str>,
) -> Result<String, (&'static str, String)> {
    let wrong = |key: &'static str| move |unknown: UnknownName| (key, unknown.to_string());
    batch::by_name(batch).map_err(wrong("batch"))?;
    let order = order.map(str::to_owned);
    let change = LocalPolicyChange { order, ..LocalPolicyChange::default() };
    change.changed(batch).map_err(wrong("order"))?;
    let aging = aging.map(str::parse).transpose().map_err(wrong("aging"))?;
    LocalPolicyChange { aging, ..change }.changed(batch).map_err(wrong("aging"))
}
