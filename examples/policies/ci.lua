-- A CI job: nobody is there to be asked, so everything is decided here, and no question is ever left open.
--
-- Trusts: the checkout that CI made, as far as the workspace goes. Does not trust: the pull request's code with
-- anything outside it. The job's own secrets stay with the job.

mode = "workspace-write"

env.drop = { "CI_*", "GITHUB_*", "RUNNER_*", "*_URL" }
env.keep = { "CI_COMMIT_SHA" } -- weaker than drop: listed for names that only look like credentials
env.set = { CI = "true" }

-- Publishing is another job's business.
rule { prefix = { "git", "push" }, decision = "forbid", reason = "this job publishes nothing" }
rule { prefix = { "docker" }, decision = "forbid", reason = "the docker socket is the whole machine" }
rule { prefix = { "npm", "publish" }, decision = "forbid", reason = "this job publishes nothing" }

-- Wider than the workspace is never granted.
function approve(ask)
  return "rejected"
end
