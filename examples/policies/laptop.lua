-- A personal laptop: the agent works in one project, the person at the keyboard is asked about the rest.
--
-- Trusts: the programs in the system's own PATH; the person who is asked. Does not trust: what is in the workspace. A
-- build runs what the project's files say, so it is confined to the workspace like everything else.

mode = "workspace-write"

-- Looking around never needs a question. (No mode: it is confined as everything is.)
for _, verb in ipairs { "status", "log", "diff", "show", "branch" } do
  rule { prefix = { "git", verb }, decision = "allow" }
end

-- What leaves the machine, or changes what others see, is worth a question each time.
rule { prefix = { "git", "push" }, decision = "ask", reason = "it publishes your work" }
rule { prefix = { "npm", "publish" }, decision = "ask", reason = "it publishes your work" }
rule { prefix = { "ssh" }, decision = "ask", reason = "it acts on another machine" }

-- Nobody means these.
rule { prefix = { "sudo" }, decision = "forbid", reason = "agents do not become root here" }
rule { prefix = { "git", "push", "--force" }, decision = "forbid", reason = "history is not rewritten" }
rule { prefix = { "git", "push", "-f" }, decision = "forbid", reason = "history is not rewritten" }

-- Credentials by other names than the usual ones.
env.drop = { "AWS_*", "KUBECONFIG", "SSH_AUTH_SOCK", "*_DSN" }

-- More than the workspace is for a person to grant: a nil passes the question on to the prompt.
function approve(ask)
  return nil
end
