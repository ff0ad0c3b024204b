//! The parts of the schema that both databases share.

/// The version of the tables, and of the content of entries, snapshots and records.
pub(crate) const VERSION: i64 = 4;

/// The indexes. One index per set of columns that a listing may fix holds the jobs by submission; a rare state of one owner
/// at one server is searched among the owner's jobs at that server.
pub(crate) const INDEXES: &str = "
    CREATE INDEX jobs_by_key ON jobs (key, ended) WHERE key IS NOT NULL;
    CREATE INDEX jobs_by_end ON jobs (ended, server, number);
    CREATE INDEX jobs_by_submission ON jobs (submitted, server, number);
    CREATE INDEX jobs_by_owner ON jobs (owner, submitted, server, number);
    CREATE INDEX jobs_by_state ON jobs (state, submitted, server, number);
    CREATE INDEX jobs_by_owner_state ON jobs (owner, state, submitted, server, number);
    CREATE INDEX jobs_by_server ON jobs (last_server, submitted, server, number);
    CREATE INDEX jobs_by_server_state ON jobs (last_server, state, submitted, server, number);
    CREATE INDEX jobs_by_owner_server ON jobs (owner, last_server, submitted, server, number, state);
    CREATE INDEX jobs_promised ON jobs (last_server, ended, number, started, expected_start, expected_completion)
        WHERE started IS NOT NULL AND expected_start IS NOT NULL AND expected_completion IS NOT NULL;
    CREATE INDEX local_jobs_by_end ON local_jobs (ended, seq);
";
