/**
 * What the scripts of the queue have in common. Keys, all in one slot of a Cluster:
 *
 * - `work`: a stream with an entry for each prediction that has not ended; the group `workers` reads it
 * - `p:ID`: a hash, the prediction. `meta`: kind, count, bytes, when it was created, deadline, time limit, entry in the stream. `request`: origin, a line
 *   break, body. `fronts`: the nodes that wait for the end; `worker`: the node that has it. `end`, once it has ended: inputs done, when it was
 *   started and finished, status, names of what is large. Few fields with much in each: what a script costs is its arguments and answers.
 * - `open`: a sorted set of `ID:count:bytes` by deadline, of all that has not ended; `totals`: items and bytes of these, items `ended` so far
 * - `mail:NODE`: a stream that a node reads: ends that it waits for, cancelled predictions that it has
 *
 * Times are those of Redis, in milliseconds. A prediction's record travels as two texts: its head (`recordOf` in replies.ts reads it), logs and members.
 */

/** An end that is longer is fetched by those that wait for it. */
const MAX_MAIL_BYTES = 65_536;
/** Longest that mail for a node that is gone stays, and how much. */
export const MAIL_MS = 60_000;
const MAX_MAILS = 10_000;
/** Once its time is up the worker ends it, with what it has of the outputs; after so long others do. */
const GRACE_MS = 1500;

export const prelude = `
local base = string.sub(KEYS[1], 1, -5)
local work, open, totals = KEYS[1], base .. 'open', base .. 'totals'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Texts of times, which cost more to make than most commands.
local texts = {}
local function textOf(ms)
  local text = texts[ms]
  if not text then
    text = string.format('%.0f', ms)
    texts[ms] = text
  end
  return text
end

local items, bytes, ended = 0, 0, 0
local done, closed, mails = {}, {}, {}

local function keyOf(id) return base .. 'p:' .. id end

-- A write that frees memory, or does nothing: after it Redis takes what follows even when its memory is full.
local function freeing() redis.call('HDEL', totals, '-') end

local function mail(node, name, value)
  local letter = mails[node]
  if not letter then
    letter = {}
    mails[node] = letter
  end
  letter[#letter + 1] = name
  letter[#letter + 1] = value
end

local function headOf(id, meta, tail, logs) return table.concat({ id, meta, tail, #logs }, ' ') end

-- Head, then logs and members; false where there is none.
local function recordOf(id)
  local h = redis.call('HMGET', keyOf(id), 'meta', 'end', 'logs', 'members', 'done', 'started')
  if not h[1] then return false end
  local logs = h[3] or ''
  return { headOf(id, h[1], h[2] or (h[5] or 0) .. ' ' .. (h[6] or '') .. '   ', logs), logs .. (h[4] or '') }
end

-- The first outcome stands. What is not given stays as it was.
local function finish(id, retainMs, status, members, inputs, logs, large, started)
  local key = keyOf(id)
  local h = redis.call('HMGET', key, 'meta', 'end', 'fronts')
  local meta = h[1]
  if not meta or h[2] then return false end
  if not inputs then
    local told = redis.call('HMGET', key, 'done', 'logs', 'started')
    inputs, logs, large, started = told[1] or 0, told[2] or '', '', told[3] or ''
  end
  local tail = table.concat({ inputs, started, textOf(now), status, large }, ' ')
  redis.call('HSET', key, 'end', tail, 'members', members, 'logs', logs, 'request', '')
  redis.call('PEXPIRE', key, retainMs)
  local count, size, entry = string.match(meta, '^%a+ (%d+) (%d+) %d+ %d+ %d+ (%S+)')
  done[#done + 1] = entry
  closed[#closed + 1] = id .. ':' .. count .. ':' .. size
  items = items - count
  bytes = bytes - size
  ended = ended + count
  if h[3] ~= '' then
    local isLong = #logs + #members > ${MAX_MAIL_BYTES}
    for node in string.gmatch(h[3], '[^,]+') do
      if isLong then mail(node, 'long', id) else mail(node, headOf(id, meta, tail, logs), logs .. members) end
    end
  end
  return true
end

-- Does for all what was put off.
local function settle()
  if #done > 0 then
    redis.call('XACK', work, 'workers', unpack(done))
    redis.call('XDEL', work, unpack(done))
  end
  if #closed > 0 then redis.call('ZREM', open, unpack(closed)) end
  if items ~= 0 then redis.call('HINCRBY', totals, 'items', items) end
  if bytes ~= 0 then redis.call('HINCRBY', totals, 'bytes', bytes) end
  if ended ~= 0 then redis.call('HINCRBY', totals, 'ended', ended) end
  for node, letter in pairs(mails) do
    local key = base .. 'mail:' .. node
    redis.call('XADD', key, 'MAXLEN', '~', ${MAX_MAILS}, '*', unpack(letter))
    redis.call('PEXPIRE', key, ${MAIL_MS})
  end
end

-- Ends one whose time is up; the node that has it is given a little longer.
local function expire(id, retainMs, meta, isTaken)
  local deadline, timeout = string.match(meta, '^%a+ %d+ %d+ %d+ (%d+) (%d+)')
  if deadline + (isTaken and ${GRACE_MS} or 0) > now then return false end
  local seconds = math.floor(timeout / 10 + 0.5) / 100
  return finish(id, retainMs, 'failed', '"error_message":"Timed out after ' .. seconds .. ' s"')
end

local function expireIfLate(id, retainMs)
  local h = redis.call('HMGET', keyOf(id), 'meta', 'end', 'worker')
  if h[1] and not h[2] then expire(id, retainMs, h[1], h[3]) end
end

local function attend(id, node)
  if node == '' then return end
  local h = redis.call('HMGET', keyOf(id), 'fronts', 'end')
  if h[2] or not h[1] or string.find(',' .. h[1] .. ',', ',' .. node .. ',', 1, true) then return end
  redis.call('HSET', keyOf(id), 'fronts', h[1] == '' and node or (h[1] .. ',' .. node))
end
`;
