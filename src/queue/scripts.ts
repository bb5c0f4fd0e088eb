/**
 * The scripts of the queue: what they do to predictions is done whole or not at all, whichever replica asks. Keys, all in one slot of a Cluster:
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
import { LuaScript } from "./redis-link.ts";

/** A prediction that was in the hands of this many workers which ended may well be the cause. */
export const MAX_DELIVERIES = 2;
/** An end that is longer is fetched by those that wait for it. */
const MAX_MAIL_BYTES = 65_536;
/** Longest that mail for a node that is gone stays, and how much. */
const MAIL_MS = 60_000;
const MAX_MAILS = 10_000;
/** Of a prediction's keys beyond its deadline and the time that its end can be read. */
const MARGIN_MS = 60_000;
/** Once its time is up the worker ends it, with what it has of the outputs; after so long others do. */
const GRACE_MS = 1500;
/** Ends by time in one call. */
const MAX_EXPIRED = 100;

const prelude = `
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

const script = (text: string) => new LuaScript(prelude + text);

/**
 * retention, max items, max bytes; of each: id, kind, count, bytes, time limit, front or "", names of what is large, request.
 * @returns items and bytes that had not ended, then for each when it was created, or -1 for too many items, -2 for too many bytes
 */
export const createScript = script(`
local now_ = redis.call('HMGET', totals, 'items', 'bytes')
local allItems, allBytes = tonumber(now_[1] or 0), tonumber(now_[2] or 0)
local answer = { allItems, allBytes }
for i = 4, #ARGV, 8 do
  local id, count, size = ARGV[i], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  if allItems + items + count > tonumber(ARGV[2]) then answer[#answer + 1] = -1
  elseif allBytes + bytes > 0 and allBytes + bytes + size > tonumber(ARGV[3]) then answer[#answer + 1] = -2
  else
    local deadline = textOf(now + ARGV[i + 4])
    local key = keyOf(id)
    local entry = redis.call('XADD', work, '*', 'id', id)
    local meta = table.concat({ ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], textOf(now), deadline, ARGV[i + 4], entry }, ' ')
    redis.call('HSET', key, 'meta', meta, 'fronts', ARGV[i + 5], 'request', ARGV[i + 7])
    if ARGV[i + 6] ~= '' then redis.call('HSET', key, 'large', ARGV[i + 6]) end
    redis.call('PEXPIRE', key, textOf(ARGV[i + 4] + ARGV[1] + ${MARGIN_MS}))
    redis.call('ZADD', open, deadline, id .. ':' .. ARGV[i + 2] .. ':' .. ARGV[i + 3])
    items = items + count
    bytes = bytes + size
    answer[#answer + 1] = now
  end
end
settle()
return answer
`);

/**
 * retention, node, entries to read; then of entries that were read before: entry, id.
 * @returns predictions given up, then of each that is to be run: id, meta, time left, request, large, waited for
 */
export const takeScript = script(`
freeing()
local me, got, answer = ARGV[2], {}, { 0 }
for i = 4, #ARGV, 2 do got[#got + 1] = { ARGV[i], ARGV[i + 1] } end
if tonumber(ARGV[3]) > 0 then
  local read = redis.call('XREADGROUP', 'GROUP', 'workers', me, 'COUNT', ARGV[3], 'STREAMS', work, '>')
  if read then for _, entry in ipairs(read[1][2]) do got[#got + 1] = { entry[1], entry[2][2] } end end
end
for _, each in ipairs(got) do
  local id = each[2]
  local h = redis.call('HMGET', keyOf(id), 'meta', 'end', 'request', 'fronts', 'large', 'worker', 'deliveries', 'cancelled')
  local meta = h[1]
  local deadline, entry
  if meta then deadline, entry = string.match(meta, '^%a+ %d+ %d+ %d+ (%d+) %d+ (%S+)') end
  if h[2] or entry ~= each[1] then done[#done + 1] = each[1]
  elseif h[8] then finish(id, ARGV[1], 'failed', '"error_message":"Canceled"')
  elseif not expire(id, ARGV[1], meta, false) then
    -- This node has it only if the answer was lost with which it was told so.
    local deliveries = tonumber(h[7] or 0) + (h[6] == me and 0 or 1)
    if deliveries > ${MAX_DELIVERIES} then
      finish(id, ARGV[1], 'failed',
        '"error_message":"Given up: ${MAX_DELIVERIES} replicas ended, or were cut off, while they had this; it is not run again"')
      answer[1] = answer[1] + 1
    else
      redis.call('HSET', keyOf(id), 'worker', me, 'deliveries', deliveries)
      if deliveries > 1 then redis.call('HDEL', keyOf(id), 'started', 'done', 'logs') end
      answer[#answer + 1] = { id, meta, deadline - now, h[3], h[5] or '', h[4] == '' and 0 or 1 }
    end
  end
end
settle()
return answer
`);

/** retention; of each: id, status, members, milliseconds since it was started or "", inputs done, logs, names of what is large. */
export const finishScript = script(`
freeing()
local answer = {}
for i = 2, #ARGV, 7 do
  local started = ARGV[i + 3] ~= '' and textOf(now - ARGV[i + 3]) or ''
  local stood = finish(ARGV[i], ARGV[1], ARGV[i + 1], ARGV[i + 2], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], started)
  answer[#answer + 1] = stood and 1 or 0
end
settle()
return answer
`);

/** node; of each: id, milliseconds since it was started or "", inputs done, bytes of the logs that were told, more of them. */
export const progressScript = script(`
for i = 2, #ARGV, 5 do
  local key = keyOf(ARGV[i])
  local h = redis.call('HMGET', key, 'worker', 'end', 'started')
  if h[1] == ARGV[1] and not h[2] then
    redis.call('HSET', key, 'done', ARGV[i + 2])
    if ARGV[i + 1] ~= '' and not h[3] then redis.call('HSET', key, 'started', now - ARGV[i + 1]) end
    if ARGV[i + 4] ~= '' then
      local told = redis.call('HGET', key, 'logs') or ''
      redis.call('HSET', key, 'logs', string.sub(told, 1, ARGV[i + 3]) .. ARGV[i + 4])
    end
  end
end
return 0
`);

/** node, ids. @returns two lists of ids: those that it no longer has, and those that are cancelled */
export const renewScript = script(`
local lost, cancelled, entries = {}, {}, {}
for i = 2, #ARGV do
  local h = redis.call('HMGET', keyOf(ARGV[i]), 'worker', 'end', 'cancelled', 'meta')
  if h[1] ~= ARGV[1] or h[2] then lost[#lost + 1] = ARGV[i]
  else
    entries[#entries + 1] = string.match(h[4], '%S+$')
    if h[3] then cancelled[#cancelled + 1] = ARGV[i] end
  end
end
if #entries > 0 then
  local claim = { work, 'workers', ARGV[1], 0 }
  for _, entry in ipairs(entries) do claim[#claim + 1] = entry end
  claim[#claim + 1] = 'JUSTID'
  redis.pcall('XCLAIM', unpack(claim))
end
return { lost, cancelled }
`);

/** node; of each: id, whether it had begun: only that counts as a delivery. Others find them at the end of the queue. */
export const giveBackScript = script(`
for i = 2, #ARGV, 2 do
  local key = keyOf(ARGV[i])
  local h = redis.call('HMGET', key, 'worker', 'end', 'meta', 'deliveries')
  if h[1] == ARGV[1] and not h[2] then
    done[#done + 1] = string.match(h[3], '%S+$')
    redis.call('HDEL', key, 'worker', 'started', 'logs')
    local meta = string.gsub(h[3], '%S+$', redis.call('XADD', work, '*', 'id', ARGV[i]))
    redis.call('HSET', key, 'meta', meta, 'done', 0, 'deliveries', h[4] - (ARGV[i + 1] == '1' and 0 or 1))
  end
end
settle()
return 0
`);

/** node: forgets a worker that has nothing more. */
export const leaveScript = script(`
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', work, 'workers')) do
  if consumer[2] == ARGV[1] and consumer[4] == 0 then redis.call('XGROUP', 'DELCONSUMER', work, 'workers', ARGV[1]) end
end
return 0
`);

/** retention, node that waits for the ends from now on or "", ids. @returns of each its record */
export const readScript = script(`
local answer = {}
for i = 3, #ARGV do
  expireIfLate(ARGV[i], ARGV[1])
  attend(ARGV[i], ARGV[2])
  answer[#answer + 1] = recordOf(ARGV[i])
end
settle()
return answer
`);

/**
 * retention, node that waits for the end, kind, id, whether to wait no longer for the worker that has it, which knows what outputs there are.
 * @returns its record, which may not have ended
 */
export const cancelScript = script(`
freeing()
local id = ARGV[4]
local h = redis.call('HMGET', keyOf(id), 'meta', 'end', 'worker')
if not h[1] or string.match(h[1], '^%a+') ~= ARGV[3] then return false end
if not h[2] then
  if not h[3] or ARGV[5] == '1' then finish(id, ARGV[1], 'failed', '"error_message":"Canceled"')
  else
    redis.call('HSET', keyOf(id), 'cancelled', 1)
    mail(h[3], 'cancel', id)
    attend(id, ARGV[2])
  end
end
settle()
return recordOf(id)
`);

/**
 * retention, node, its last mail, lease: ends what is late, forgets workers that are gone and mail that was read.
 * @returns items, bytes, items ended so far, entries that wait, entries that workers have, age of the oldest that waits, workers, predictions that were ended
 */
export const tendScript = script(`
freeing()
local expired = 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', now, 'LIMIT', 0, ${MAX_EXPIRED})) do
  local id, count, size = string.match(member, '^(.*):(%d+):(%d+)$')
  local h = redis.call('HMGET', keyOf(id), 'meta', 'worker')
  if not h[1] then
    closed[#closed + 1] = member
    items = items - count
    bytes = bytes - size
  elseif expire(id, ARGV[1], h[1], h[2]) then expired = expired + 1 end
end
settle()
redis.call('XTRIM', base .. 'mail:' .. ARGV[2], 'MINID', ARGV[3])
local total = redis.call('HMGET', totals, 'items', 'bytes', 'ended')
local waiting, taken, age, workers, delivered = redis.call('XLEN', work), 0, 0, 0, '0-0'
local groups = redis.pcall('XINFO', 'GROUPS', work)
if not groups.err and groups[1] then
  local group = {}
  for i = 1, #groups[1], 2 do group[groups[1][i]] = groups[1][i + 1] end
  taken = group['pending']
  waiting = waiting - taken
  delivered = group['last-delivered-id']
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', work, 'workers')) do
    local name, pending, idle = consumer[2], consumer[4], consumer[6]
    if idle < math.max(5000, tonumber(ARGV[4])) then workers = workers + 1
    elseif pending == 0 and idle > ${MAIL_MS} then redis.call('XGROUP', 'DELCONSUMER', work, 'workers', name) end
  end
end
local oldest = redis.call('XRANGE', work, '(' .. delivered, '+', 'COUNT', 1)[1]
if oldest then age = math.max(0, now - string.match(oldest[1], '^%d+')) end
return { tonumber(total[1] or 0), tonumber(total[2] or 0), tonumber(total[3] or 0), waiting, taken, age, workers, expired }
`);
