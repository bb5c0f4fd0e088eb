/**
 * What the scripts of the queue have in common. Keys, all in one slot of a Cluster:
 *
 * - `work`: a stream with an entry for each prediction that has not ended, with what a worker has to know of it: `head` (id, kind, count, bytes, when it
 *   was created, deadline, time limit, whether it is waited for, name of what is large, deliveries before this entry), `request` (origin, a line break,
 *   body). The group `workers` reads it, and knows which worker has an entry
 * - `live`: a hash of all that has not ended, by id: kind, count, bytes, when it was created, deadline, time limit, entry, nodes that wait for the end
 * - `open`: their ids, sorted by deadline
 * - `t:ID`: a hash, what a worker told of one that runs for long: `done`, `logs`, `started`; and `cancelled`
 * - `p:ID`: a text, the record of one that has ended (`recordOf` in replies.ts reads it)
 * - `kept`: a sorted set of `bytes:ID` of these, by the time of their end
 * - `totals`: items and bytes of all that has not ended, items `ended` so far, bytes `kept`
 * - `mail:NODE`: a stream that a node reads: ends that it waits for, cancelled predictions that it has
 *
 * Of many predictions at once nearly all is one command for all of them: commands are what a script costs. Times are those of Redis, in milliseconds.
 * The first two arguments of each script are for how long ended ones are kept, how many and how many bytes; and the node that asks.
 */

/** An end that is longer is fetched by those that wait for it. */
const MAX_MAIL_BYTES = 65_536;
/** Longest that mail for a node that is gone stays, and how much. */
export const MAIL_MS = 60_000;
const MAX_MAILS = 10_000;
/** Once its time is up the worker ends it, with what it has of the outputs; after so long others do. */
const GRACE_MS = 1500;
/** Of an ended prediction beside its record. */
const KEPT_BYTES = 704;
/** An end that those who wait for it fetch is kept for so long, whatever the limits are. */
const FETCH_MS = 2000;
/** As many ended ones as there is room for. */
export const NO_LIMIT = 1e15;

export const prelude = `
local base, me = string.sub(KEYS[1], 1, -5), ARGV[2]
local work, open, live, kept, totals = KEYS[1], base .. 'open', base .. 'live', base .. 'kept', base .. 'totals'
local retainMs, maxKept, maxKeptBytes = string.match(ARGV[1], '(%S+) (%S+) (%S+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function textOf(ms) return string.format('%.0f', ms) end
local nowText = textOf(now)

local items, bytes, ended, keptBytes = 0, 0, 0, 0
local lives, done, closed, told, keeps, mails = {}, {}, {}, {}, {}, {}

-- A write that frees memory, or does nothing: after it Redis takes what follows even when its memory is full.
local function freeing() redis.call('HDEL', totals, '-') end

-- Looks up what has not ended, for all that follows.
local function look(ids)
  if #ids == 0 then return end
  local found = redis.call('HMGET', live, unpack(ids))
  for i, id in ipairs(ids) do lives[id] = found[i] end
end

local function entryOf(id) return string.match(lives[id], '^%S+ %S+ %S+ %S+ %S+ %S+ (%S+)') end

-- The node that has an entry, and how often nodes were given it.
local function holderOf(entry)
  local pending = redis.pcall('XPENDING', work, 'workers', entry, entry, 1)
  if pending.err or not pending[1] then return nil end
  return pending[1][2], pending[1][4]
end

local function mail(node, name, value)
  local letter = mails[node]
  if not letter then
    letter = {}
    mails[node] = letter
  end
  letter[#letter + 1] = name
  letter[#letter + 1] = value
end

-- The first outcome stands. What is not given is what the worker told last.
local function finish(id, status, members, inputs, logs, large, started)
  if not lives[id] then return end
  local meta, count, size, entry, fronts = string.match(lives[id], '^(%S+ (%S+) (%S+) %S+ %S+ %S+) (%S+) (.*)$')
  lives[id] = false
  if not inputs then
    local h = redis.call('HMGET', base .. 't:' .. id, 'done', 'logs', 'started')
    inputs, logs, large, started = h[1] or 0, h[2] or '', '', h[3] or ''
  end
  local head = table.concat({ id, meta, inputs, started, nowText, status, large, #logs }, ' ')
  local record = table.concat({ head, '\\n', logs, members })
  redis.call('SET', base .. 'p:' .. id, record, 'PX', retainMs)
  local size_ = #record + ${KEPT_BYTES}
  keeps[#keeps + 1] = nowText
  keeps[#keeps + 1] = size_ .. ':' .. id
  keptBytes = keptBytes + size_
  done[#done + 1] = entry
  closed[#closed + 1] = id
  told[#told + 1] = base .. 't:' .. id
  items = items - count
  bytes = bytes - size
  ended = ended + count
  for node in string.gmatch(fronts, '[^,]+') do
    if #record > ${MAX_MAIL_BYTES} then mail(node, 'long', id) else mail(node, 'end', record) end
  end
end

-- Forgets ended predictions, those that ended first before others, down to the limits. Gives the bytes that are left.
local function forget(allBytes)
  local maxBytes, most, count = tonumber(maxKeptBytes), tonumber(maxKept), 0
  if most < ${NO_LIMIT} then count = redis.call('ZCARD', kept) end
  if allBytes <= maxBytes and count <= most then return allBytes end
  local oldest, keys = redis.call('ZRANGE', kept, 0, #keeps + 16, 'WITHSCORES'), {}
  for i = 1, #oldest, 2 do
    local size, id = string.match(oldest[i], '^(%d+):(.*)$')
    local isFetched = tonumber(size) > ${MAX_MAIL_BYTES} and oldest[i + 1] + ${FETCH_MS} > now
    if isFetched or allBytes <= maxBytes and count - #keys <= most then break end
    allBytes = allBytes - size
    keys[#keys + 1] = base .. 'p:' .. id
  end
  if #keys > 0 then
    redis.call('ZREMRANGEBYRANK', kept, 0, #keys - 1)
    redis.call('UNLINK', unpack(keys))
  end
  return allBytes
end

-- Does for all what was put off.
local function settle()
  if #done > 0 then
    redis.call('XACK', work, 'workers', unpack(done))
    redis.call('XDEL', work, unpack(done))
  end
  if #closed > 0 then
    redis.call('ZREM', open, unpack(closed))
    redis.call('HDEL', live, unpack(closed))
  end
  if #told > 0 then redis.call('DEL', unpack(told)) end
  if #keeps > 0 then redis.call('ZADD', kept, unpack(keeps)) end
  if items ~= 0 or ended ~= 0 or keptBytes ~= 0 then
    local h = redis.call('HMGET', totals, 'items', 'bytes', 'ended', 'kept')
    redis.call('HSET', totals, 'items', textOf((h[1] or 0) + items), 'bytes', textOf((h[2] or 0) + bytes),
      'ended', textOf((h[3] or 0) + ended), 'kept', textOf(forget((h[4] or 0) + keptBytes)))
  end
  for node, letter in pairs(mails) do
    local key = base .. 'mail:' .. node
    redis.call('XADD', key, 'MAXLEN', '~', ${MAX_MAILS}, '*', unpack(letter))
    redis.call('PEXPIRE', key, ${MAIL_MS})
  end
end

-- Ends one whose time is up; another node that has it is given a little longer.
local function expire(id)
  if not lives[id] then return false end
  local deadline, timeout, entry = string.match(lives[id], '^%S+ %S+ %S+ %S+ (%S+) (%S+) (%S+)')
  if tonumber(deadline) > now then return false end
  if deadline + ${GRACE_MS} > now then
    local holder = holderOf(entry)
    if holder and holder ~= me then return false end
  end
  local seconds = math.floor(timeout / 10 + 0.5) / 100
  finish(id, 'failed', '"error_message":"Timed out after ' .. seconds .. ' s"')
  return true
end

local function cancel(id) finish(id, 'failed', '"error_message":"Canceled"') end

-- The end is to be told to a node as well.
local function attend(id, node)
  local found = lives[id]
  if not found or string.find(string.match(found, '%S*$'), node, 1, true) then return end
  lives[id] = found .. (string.sub(found, -1) == ' ' and '' or ',') .. node
  redis.call('HSET', live, id, lives[id])
end

-- False where there is none.
local function recordOf(id)
  local found = lives[id]
  if not found then return redis.call('GET', base .. 'p:' .. id) end
  local h = redis.call('HMGET', base .. 't:' .. id, 'done', 'started', 'logs')
  local logs = h[3] or ''
  local meta = string.match(found, '^%S+ %S+ %S+ %S+ %S+ %S+')
  return table.concat({ id, meta, h[1] or 0, h[2] or '', '', '', '', #logs }, ' ') .. '\\n' .. logs
end
`;
