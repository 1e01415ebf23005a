-- A teaching machine: learners watch an agent, and see why something is not done.
--
-- Trusts: nobody with more than reading, but for the exercise's own directory when the teacher says so. Does not trust:
-- the network tools, and anything that stays behind.

mode = "read-only"

rule { prefix = { "curl" }, decision = "forbid", reason = "what is needed is on this machine" }
rule { prefix = { "wget" }, decision = "forbid", reason = "what is needed is on this machine" }
rule { prefix = { "rm" }, decision = "ask", reason = "say first what will be gone" }
rule { prefix = { "crontab" }, decision = "forbid", reason = "nothing stays behind after class" }
rule { prefix = { "at" }, decision = "forbid", reason = "nothing stays behind after class" }

markers.denied = function(facts)
  return ("[sandbox: this command wanted to change a file; in this class the mode is %s]"):format(facts.mode)
end

-- The compiler may write where the exercise is.
function resolve(request, policy)
  local words = request.words
  if words and (words[1] == "cc" or words[1] == "make") then
    return "workspace-write"
  end
end

function approve(ask)
  return ask.mode == "workspace-write" and "ask" or "rejected"
end
