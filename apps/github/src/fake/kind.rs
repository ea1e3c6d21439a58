//! The kinds of documents.

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An account.
    User,
    /// An action of a user.
    Event,
    /// A repository.
    Repository,
    /// An issue that is not a pull request.
    Issue,
    /// A pull request.
    PullRequest,
    /// A commit.
    Commit,
    /// A commit that another branch has and the default branch has not.
    BranchCommit,
    /// A comment on an issue or pull request.
    IssueComment,
    /// A comment on a line of a pull request.
    ReviewComment,
    /// A review of a pull request.
    Review,
    /// An action on an issue.
    IssueEvent,
    /// An entry of an issue's timeline.
    Timeline,
    /// A reaction to an issue.
    Reaction,
    /// A release.
    Release,
    /// A tag; it has a name and no id.
    Tag,
    /// A branch; it has a name and no id.
    Branch,
    /// A label.
    Label,
    /// A milestone.
    Milestone,
    /// A star of a user for a repository.
    Stargazer,
    /// A user with commits in a repository.
    Contributor,
    /// A workflow.
    Workflow,
    /// A run of a workflow.
    WorkflowRun,
    /// A job of a run's latest attempt.
    WorkflowJob,
    /// A deployment.
    Deployment,
    /// A comment on a commit.
    CommitComment,
    /// The languages of a repository: one object, without an id.
    Languages,
    /// An organisation that a user is a member of.
    Organization,
    /// A member of an organisation.
    Member,
    /// A team of an organisation.
    Team,
    /// A pull request with the fields that only its own page has.
    PullRequestDetail,
    /// A commit with its files.
    CommitDetail,
}

impl Kind {
    /// Its name: `pull_request`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Event => "event",
            Self::Repository => "repository",
            Self::Issue => "issue",
            Self::PullRequest => "pull_request",
            Self::Commit => "commit",
            Self::BranchCommit => "branch_commit",
            Self::IssueComment => "issue_comment",
            Self::ReviewComment => "review_comment",
            Self::Review => "review",
            Self::IssueEvent => "issue_event",
            Self::Timeline => "timeline",
            Self::Reaction => "reaction",
            Self::Release => "release",
            Self::Tag => "tag",
            Self::Branch => "branch",
            Self::Label => "label",
            Self::Milestone => "milestone",
            Self::Stargazer => "stargazer",
            Self::Contributor => "contributor",
            Self::Workflow => "workflow",
            Self::WorkflowRun => "workflow_run",
            Self::WorkflowJob => "workflow_job",
            Self::Deployment => "deployment",
            Self::CommitComment => "commit_comment",
            Self::Languages => "languages",
            Self::Organization => "organization",
            Self::Member => "member",
            Self::Team => "team",
            Self::PullRequestDetail => "pull_request_detail",
            Self::CommitDetail => "commit_detail",
        }
    }
}
