//! The messages that are sent back and forth, and read from damaged bytes.

pub(super) use pliant_control::agent::{
    DiscoveryResult, DiscoverySubject, ReallocationConfig, ReallocationReport,
};
pub(super) use pliant_control::coallocation::{LaunchRecord, Link, Machine, Subjob, SubjobId};
pub(super) use pliant_control::estimation_vector::EstimationVector;
pub(super) use pliant_control::explain::Explanation;
pub(super) use pliant_control::handoff::{MoveOutcome, MoveProposal, Reply, ServerSnapshot};
pub(super) use pliant_control::job::{ComparedEstimate, Exit, Hop, JobRecord, Work};
pub(super) use pliant_control::multi_job;
pub(super) use pliant_control::server::Drain;
pub(super) use pliant_control::server_info::ServerInfo;
pub(super) use pliant_control::signed::{HandoffSignature, SignedClaim};
pub(super) use pliant_model::{Estimate, Speedup};
pub(super) use pliant_staging::FileSpec;

pub(super) use super::super::field::HasMessage;
pub(super) use super::super::*;

/// Calls another macro with every message that has tests of its own: the name of its round trip, and the domain type.
macro_rules! for_each_message {
    ($then:ident) => {
        $then! {
            speedups: Speedup;
            works: Work;
            estimates: Estimate;
            vectors: EstimationVector;
            compared_estimates: ComparedEstimate;
            exits: Exit;
            jobs: JobRecord;
            questions_of_clients: DiscoverySubject;
            answers: DiscoveryResult;
            servers: ServerInfo;
            messages_of_children: FromChild;
            messages_of_parents: FromParent;
            federations: Federation;
            queries_of_jobs: JobsQuery;
            pages_of_jobs: JobsPage;
            located_jobs: LocatedJob;
            accuracies_of_servers: Accuracy;
            runtimes_of_jobs: Runtimes;
            questions_about_prospects: ProspectsQuery;
            files: FileSpec;
            submissions: Submission;
            answers_to_submissions: SubmitAnswer;
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
            drained_servers: Drain;
        }
    };
}
pub(super) use for_each_message;
