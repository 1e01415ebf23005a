--- Background jobs: handles under ids that a model can say, each owned by the session that started it.
--
-- An id is never used twice. A session sees its own jobs only: another's id is as unknown as one that never was. The
-- number of running jobs is bounded, and all of a session's are stopped when it ends. Relies on an executor's handles.
-- @module moonsand.jobs

local errors = require "moonsand.errors"

local jobs = {}

local Jobs = {}
Jobs.__index = Jobs
Jobs.__name = "moonsand.jobs"

--- The bounds where nothing else is said.
jobs.defaults = { max_running = 16, max_kept = 100 }

--- Make a registry. Several tools may share one.
-- @tparam[opt] table options
-- @tparam[opt=16] integer options.max_running at a time, of one session
-- @tparam[opt=100] integer options.max_kept settled jobs of one session that can still be read; the oldest goes first
-- @treturn jobs
function jobs.new(options)
  local made = { last = 0, list = {}, by_id = {}, watched = setmetatable({}, { __mode = "k" }) }
  for name, default in pairs(jobs.defaults) do
    local value = options and options[name]
    if value == nil then
      value = default
    elseif math.type(value) ~= "integer" or value < 1 then
      error(("bad option '%s' (a positive integer expected)"):format(name), 2)
    end
    made[name] = value
  end
  return setmetatable(made, Jobs)
end

--- Whether a value is a registry.
-- @param value anything
-- @treturn boolean
function jobs.is(value)
  return getmetatable(value) == Jobs
end

local function forget(self, job)
  self.by_id[job.id] = nil
  for position, other in ipairs(self.list) do
    if other == job then
      table.remove(self.list, position)
      break
    end
  end
end

-- How many of an owner's run, how many are settled, and the oldest of those.
local function count(self, owner)
  local running, settled, oldest = 0, 0, nil
  for _, job in ipairs(self.list) do
    if job.owner == owner then
      if job.handle.status == "running" then
        running = running + 1
      else
        settled, oldest = settled + 1, oldest or job
      end
    end
  end
  return running, settled, oldest
end

--- Whether an owner may start one more.
-- @param owner a session's id, or false
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`
function Jobs:room(owner)
  local running, settled, oldest = count(self, owner)
  if running >= self.max_running then
    return nil, errors.new("INVALID_REQUEST", ("%d background jobs are running, which is as many as may; wait for one "
      .. "or stop one with job_kill"):format(running))
  elseif settled >= self.max_kept then
    forget(self, oldest)
  end
  return true
end

--- Take a handle in.
-- @param owner a session's id, or false
-- @tparam table handle
-- @tparam table facts `{ command, description, mode? }`
-- @treturn table the job: `id`, `handle`, `owner`, and the facts
function Jobs:add(owner, handle, facts)
  self.last = self.last + 1
  local job = {
    id = ("job-%d"):format(self.last),
    handle = handle,
    owner = owner,
    command = facts.command,
    description = facts.description,
    mode = facts.mode,
  }
  self.list[#self.list + 1] = job
  self.by_id[job.id] = job
  return job
end

--- Have a session's jobs stopped when it ends.
-- @tparam table sessions
-- @tparam table session
function Jobs:watch(sessions, session)
  if not self.watched[session] then
    self.watched[session] = true
    sessions:at_end(session, function(ended)
      self:stop(ended.id)
    end)
  end
end

--- An owner's job.
-- @param owner a session's id, or false
-- @param id as the model said it
-- @treturn[1] table job
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`, the same for another's as for none
function Jobs:find(owner, id)
  local job = type(id) == "string" and self.by_id[id]
  if job and job.owner == owner then
    return job
  end
  return nil, errors.new("INVALID_REQUEST", ("there is no background job '%s'; job_list shows those there are"):format(
    require("moonsand.visible").line(tostring(id))))
end

--- An owner's jobs, in the order of their start.
-- @param owner a session's id, or false
-- @treturn {table,...}
function Jobs:of(owner)
  local found = {}
  for _, job in ipairs(self.list) do
    if job.owner == owner then
      found[#found + 1] = job
    end
  end
  return found
end

--- Stop all of an owner's jobs, wait until they are over, and forget them.
-- @param owner a session's id, or false
function Jobs:stop(owner)
  local stopping = self:of(owner)
  for _, job in ipairs(stopping) do
    job.handle:kill()
  end
  for _, job in ipairs(stopping) do
    job.handle:wait()
    forget(self, job)
  end
end

--- Stop every job. `<close>` does this.
function Jobs:close()
  for _, job in ipairs(self.list) do
    job.handle:kill()
  end
  for _, job in ipairs(self.list) do
    job.handle:wait()
  end
  self.list, self.by_id = {}, {}
end

function Jobs:__close()
  self:close()
end

return jobs
