-- A team's shared repository: git is where the rules are.
--
-- Trusts: people with the team's conventions to answer a question. Does not trust: the agent with shared history. These
-- rules keep honest work on its path; what confines is the mode, as a script file may hold any command.

mode = "workspace-write"

local safe = { "status", "log", "diff", "show", "blame", "rev-parse", "ls-files" }
for _, verb in ipairs(safe) do
  rule { prefix = { "git", verb }, decision = "allow" }
end

-- Local history is the agent's to write, shared history is asked about, rewritten history is out of the question.
rule { prefix = { "git", "push" }, decision = "ask", reason = "shared branches" }
rule { prefix = { "git", "merge" }, decision = "ask", reason = "merges are reviewed" }
for _, flag in ipairs { "--force", "-f", "--force-with-lease", "--mirror", "--delete" } do
  rule { prefix = { "git", "push", flag }, decision = "forbid", reason = "shared history stays" }
end
rule { prefix = { "git", "reset", "--hard" }, decision = "ask", reason = "it loses uncommitted work" }
rule { prefix = { "git", "clean" }, decision = "ask", reason = "it loses untracked work" }
rule { prefix = { "git", "config", "--global" }, decision = "forbid", reason = "configuration runs programs" }

-- Reading needs no writing: a command that only looks is narrowed.
function resolve(request, policy)
  local words = request.words -- there only when the command is written out, and nothing besides
  if words and words[1] == "git" then
    for _, verb in ipairs(safe) do
      if words[2] == verb then
        return "read-only"
      end
    end
  end
end

-- A wider mode wants a reason that somebody could check: a ticket.
function approve(ask)
  if ask.mode == "danger-full-access" or not ask.justification or not ask.justification:find("%u+%-%d+") then
    return "rejected"
  end
  return "ask"
end
