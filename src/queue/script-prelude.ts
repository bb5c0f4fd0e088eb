/**
 * What the scripts of the queue have in common. Keys, all in one slot of a Cluster:
 *
 * - `work`: a stream with an entry for each prediction that has not ended; the group `workers` reads it
 * - `p:ID`: a hash, the prediction; `entry` is that in the stream, `fronts` are the nodes that wait for the end, `worker` is the node that has it
 * - `open`: a sorted set of `ID:count:bytes` by deadline, of all that has not ended; `totals`: items and bytes of these, items `ended` so far
 * - `mail:NODE`: a stream that a node reads: ends that it waits for, cancelled predictions that it has
 *
 * Times are those of Redis, in milliseconds. A prediction's record travels as three texts: its head (`recordOf` in replies.ts reads it), logs, members.
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
local items, bytes, ended = 0, 0, 0
local done, closed, mails = {}, {}, {}

local function keyOf(id) return base .. 'p:' .. id end

-- A write that frees memory, or does nothing: after it Redis takes what follows even when its memory is full.
local function freeing() redis.call('HDEL', totals, '-') end

local function mail(node, ...)
  local letter = mails[node]
  if not letter then
    letter = {}
    mails[node] = letter
  end
  for _, each in ipairs({ ... }) do letter[#letter + 1] = each end
end

-- Head, logs and members; false where there is none.
local function recordOf(id)
  local h = redis.call('HMGET', keyOf(id), 'kind', 'count', 'done', 'created', 'started', 'finished', 'status', 'large', 'logs',
    'members')
  if not h[1] then return false end
  local head = { id }
  for i = 1, 8 do head[i + 1] = h[i] or '' end
  return { table.concat(head, ' '), h[9] or '', h[10] or '' }
end

-- The first outcome stands. What is not given stays as it was.
local function finish(id, retainMs, status, members, inputs, logs, large, started)
  local key = keyOf(id)
  local h = redis.call('HMGET', key, 'status', 'entry', 'count', 'bytes', 'fronts', 'kind', 'created', 'done', 'logs', 'started')
  if not h[3] or h[1] then return false end
  inputs, logs, large, started = inputs or h[8] or 0, logs or h[9] or '', large or '', started or h[10] or ''
  redis.call('HSET', key, 'status', status, 'members', members, 'finished', now, 'done', inputs, 'logs', logs, 'large', large,
    'started', started, 'body', '', 'origin', '')
  redis.call('PEXPIRE', key, retainMs)
  done[#done + 1] = h[2]
  closed[#closed + 1] = id .. ':' .. h[3] .. ':' .. h[4]
  items = items - h[3]
  bytes = bytes - h[4]
  ended = ended + h[3]
  if h[5] and h[5] ~= '' then
    local head = table.concat({ id, h[6], h[3], inputs, h[7], started, now, status, large }, ' ')
    local isLong = #logs + #members > ${MAX_MAIL_BYTES}
    for node in string.gmatch(h[5], '[^,]+') do
      if isLong then mail(node, 'long', id) else mail(node, 'head', head, 'logs', logs, 'members', members) end
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
local function expire(id, retainMs, deadline, timeout, isTaken)
  if tonumber(deadline) + (isTaken and ${GRACE_MS} or 0) > now then return false end
  local seconds = math.floor(timeout / 10 + 0.5) / 100
  return finish(id, retainMs, 'failed', '"error_message":"Timed out after ' .. seconds .. ' s"')
end

local function expireIfLate(id, retainMs)
  local h = redis.call('HMGET', keyOf(id), 'status', 'deadline', 'timeout', 'worker')
  if h[2] and not h[1] then expire(id, retainMs, h[2], h[3], h[4]) end
end

local function attend(id, node)
  if node == '' then return end
  local h = redis.call('HMGET', keyOf(id), 'fronts', 'status')
  if h[2] or not h[1] or string.find(',' .. h[1] .. ',', ',' .. node .. ',', 1, true) then return end
  redis.call('HSET', keyOf(id), 'fronts', h[1] == '' and node or (h[1] .. ',' .. node))
end
`;
