//! Bytes from anywhere, read as a message: they are refused or understood, and what is understood can be written again. Tests
//! and the fuzzer share it.

use prost::Message;

pub(crate) use pliant_control::agent::{
    DayErrors, DiscoveryResult, DiscoverySubject, PromiseDay, ReallocationConfig, ReallocationReport,
};
pub(crate) use pliant_control::coallocation::{LaunchRecord, Link, Machine, Subjob, SubjobId};
pub(crate) use pliant_control::estimation_vector::EstimationVector;
pub(crate) use pliant_control::explain::Explanation;
pub(crate) use pliant_control::handoff::{MoveOutcome, MoveProposal, Reply, ServerSnapshot};
pub(crate) use pliant_control::job::{ComparedEstimate, EstimateChange, Exit, Hop, JobRecord, Work};
pub(crate) use pliant_control::multi_job;
pub(crate) use pliant_control::server::{Ban, Drain};
pub(crate) use pliant_control::server_info::ServerInfo;
pub(crate) use pliant_control::signed::{HandoffSignature, SignedClaim};
pub(crate) use pliant_model::{Estimate, Speedup};
pub(crate) use pliant_policy::discovery::Summary;
pub(crate) use pliant_staging::FileSpec;

pub(crate) use super::field::HasMessage;
pub(crate) use super::*;

/// Calls another macro with every message that has tests of its own: the name of its round trip, and the domain type.
macro_rules! for_each_message {
    ($then:ident) => {
        $then! {
            speedups: Speedup;
            works: Work;
            estimates: Estimate;
            vectors: EstimationVector;
            compared_estimates: ComparedEstimate;
            changed_estimates: EstimateChange;
            exits: Exit;
            jobs: JobRecord;
            ends_of_calls: CallEnd;
            questions_of_clients: DiscoverySubject;
            answers: DiscoveryResult;
            servers: ServerInfo;
            messages_of_children: FromChild;
            messages_of_parents: FromParent;
            summaries_of_children: Summary;
            federations: Federation;
            queries_of_jobs: JobsQuery;
            positions_of_jobs: JobCursor;
            pages_of_jobs: JobsPage;
            queries_of_changes: ChangesQuery;
            pages_of_changes: ChangesPage;
            located_jobs: LocatedJob;
            accuracies_of_servers: Accuracy;
            days_of_promises: PromiseDay;
            errors_of_days: DayErrors;
            questions_of_accuracy: AccuracyQuery;
            runtimes_of_jobs: Runtimes;
            questions_about_prospects: ProspectsQuery;
            files: FileSpec;
            submissions: Submission;
            queries_of_stored_data: StoredDataQuery;
            lists_of_stored_data: StoredDataList;
            submitted_jobs: SubmittedJob;
            answers_to_submissions: SubmitAnswer;
            answers_to_calls: CallAnswer;
            answers_to_one_of_several_submissions: SubmitOutcome;
            answers_to_one_of_several_questions: DiscoverOutcome;
            explanations: Explanation;
            uploads: Upload;
            downloads: Download;
            results: Fetchable;
            results_of_jobs: JobResults;
            offers: Offer;
            moves_of_jobs: Hop;
            orders: MoveProposal;
            outcomes_of_orders: MoveOutcome;
            pictures_of_queues: ServerSnapshot;
            jobs_that_are_handed_over: Prepare;
            answers_to_handoffs: Reply;
            queries_of_histories: HistoryQuery;
            pages_of_histories: HistoryPage;
            queries_of_local_jobs: LocalJobsQuery;
            pages_of_local_jobs: LocalJobsPage;
            prospects_of_instances: multi_job::InstanceProspects;
            questions_of_explorations: ExplorationRequest;
            answers_to_explorations: ExplorationReply;
            shares_of_users: Shares;
            queries_of_offers: OffersQuery;
            reports_of_rounds: ReallocationReport;
            ways_of_moving: ReallocationConfig;
            programs_of_tasks: Program;
            launches_of_clients: LaunchRequest;
            tasks_that_are_spawned: SpawnRequest;
            launches_as_they_stand: LaunchRecord;
            queries_of_launches: LaunchesQuery;
            machines_of_servers: Machine;
            parts_of_launches: Subjob;
            decisions_about_subjobs: (SubjobId, DecidedSubjob);
            reports_of_subjobs: SubjobReport;
            orders_to_measure_links: LinkProbe;
            links_that_were_measured: LinkMeasurement;
            orders_to_give_bytes: DownloadProbe;
            links_as_they_are_known: Link;
            downloads_of_tasks: TaskDownload;
            parts_that_are_held: HeldSubjobs;
            answers_to_uploads: UploadAnswer;
            verdicts_about_handoffs: SignedDecision;
            commits_of_handoffs: CommitOrder;
            claims_of_users: SignedClaim;
            signatures_of_servers: HandoffSignature;
            signatures_for_tasks: SignedTasks;
            pages_of_launches: LaunchesPage;
            acts_of_operators: AdminOrder;
            acts_about_jobs: JobAdminOrder;
            drained_servers: Drain;
            acts_about_users: UserAdminOrder;
            banned_users: Ban;
            acts_about_priorities: PriorityOrder;
            acts_about_limits: LimitOrder;
            limits_of_users: LimitsList;
            queries_of_audit_trails: AuditQuery;
            pages_of_audit_trails: AuditPage;
        }
    };
}
#[cfg(test)]
pub(crate) use for_each_message;

/// A message after its way over the wire.
pub(crate) fn sent<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).expect("what was encoded can be decoded")
}

/// A value after its way over the wire as an `M`.
pub(crate) fn received<M, T>(value: &T) -> Result<T, Malformed>
where
    M: Message + Default + for<'a> From<&'a T>,
    T: TryFrom<M, Error = Malformed>,
{
    T::try_from(sent(&M::from(value)))
}

/// Reads bytes as an `M`; if they say something, it can be said again.
pub(crate) fn understood<M, T>(bytes: &[u8])
where
    M: Message + Default + for<'a> From<&'a T>,
    T: TryFrom<M, Error = Malformed> + Clone + PartialEq + std::fmt::Debug,
{
    let Ok(message) = M::decode(bytes) else { return };
    match T::try_from(message) {
        Ok(value) => assert_eq!(received::<M, T>(&value), Ok(value)),
        Err(malformed) => fit_to_show(&malformed),
    }
}

fn fit_to_show(malformed: &Malformed) {
    let shown = malformed.to_string();
    assert!(shown.len() < 2000 && !shown.contains(char::is_control), "{shown:?}");
}

fn refused_or_not<M: Message + Default, T>(bytes: &[u8], read: impl Fn(M) -> Result<T, Malformed>) {
    if let Ok(Err(malformed)) = M::decode(bytes).map(read) {
        fit_to_show(&malformed);
    }
}

macro_rules! readers {
    ($($test:ident: $type:ty;)*) => {
        /// A reader for each message.
        const READERS: &[fn(&[u8])] = &[
            $(understood::<<$type as HasMessage>::Message, $type>,)*
            |bytes| refused_or_not(bytes, accuracies),
            |bytes| refused_or_not(bytes, listed_machines),
            |bytes| refused_or_not(bytes, links),
        ];
    };
}
for_each_message!(readers);

/// Reads bytes as each of the messages.
pub fn as_every_message(bytes: &[u8]) {
    READERS.iter().for_each(|read| read(bytes));
}

/// Reads bytes as one of the messages, which the first byte chooses.
pub fn as_one_message(bytes: &[u8]) {
    if let Some((&choice, bytes)) = bytes.split_first() {
        READERS[usize::from(choice) % READERS.len()](bytes);
    }
}
