/**
 * Lua functions that all scripts of the queue share. A node is a replica, and a worker is a node that runs predictions. A worker claims a prediction for the
 * time of a lease and renews the lease; after the lease, another worker may claim the prediction. These are the Redis keys of a queue, all in one slot of a
 * Cluster:
 *
 * - `work`: a stream with one entry for each unfinished prediction, which the consumer group `workers` reads. The field `head` has id, kind, count, bytes,
 *   time limit, 1 for a large body, whether a client waits, creation time, deadline, and number of earlier attempts. The field `request` has origin,
 *   webhook, and a small body
 * - `p:SECOND`: a hash of predictions by id, for ids with the same characters 2 to 5, which are the second of creation if no client chose the id. The text
 *   of an unfinished prediction has `~`, kind, count, bytes, time limit, 1 for a large body, creation time, deadline, id of the entry in `work`,
 *   digest of the request if a client chose the id, and the nodes to notify (`!` stands for a webhook). The text of an ended prediction is the record
 *   that replies.ts parses
 * - `b:ID`: a large body with its origin and webhook
 * - `t:ID`: a hash with the progress of a running prediction: `done` (number of inputs), `logs`, `started` (time), and `cancelled` if a client has
 *   canceled the prediction
 * - `e:ID`: a list with the events of a running prediction: first the name of the log, the number of dropped events and the bytes of the others; then for
 *   each event the index of the input, the sequence number of a part, and the JSON text of the part or output
 * - `w:ID`: a sorted set of the nodes with event streams of a prediction, by the time until which they watch. The member '' stands for nodes that poll and
 *   get no notifications
 * - `soon`: a sorted set by deadline of unfinished predictions whose order in `work` is not the order of deadlines
 * - `kept`: a list of batches of ended predictions: time, count, bytes, whether a record is long, ids
 * - `totals`: a hash with numbers: unfinished `items` and their `bytes`, predictions `ended` by workers, retained predictions `kept` and their `keptBytes`
 * - `hooks`: a hash of undelivered webhooks by prediction id: creation time of the prediction, and webhook
 * - `due`: a sorted set of ended predictions with webhooks, by the end of the lease of the node that sends the webhook
 * - `signs`: a sorted set of workers by the time of their last poll
 * - `mail:NODE`: a stream of notifications for a node: ends and events of predictions that its clients wait for, and predictions of this worker that a
 *   client cancels or watches
 *
 * Scripts use few commands for each prediction, because commands and their texts are most of a script's cost. Times are milliseconds of Redis' clock.
 * The first two arguments of each script are a text (retention time, count and bytes, lease of this node's webhooks) and the id of the calling node.
 */

import { LARGE_VALUE_BYTES, LuaScript } from "./redis-link.ts";

/** Prefix of all keys, with the version of their layout. Replicas with another layout use other keys. */
export const KEY_PREFIX = "sconce:7:";
/** Largest outcome in a notification, in bytes. Replicas read a larger outcome. */
const MAX_MAIL_BYTES = 65_536;
/** Milliseconds after which notifications for a replica expire. */
export const MAIL_MS = 60_000;
const MAX_MAILS = 10_000;
/** Milliseconds after the time limit in which the worker can end the prediction with its outputs so far. Then any replica ends it. */
const GRACE_MS = 1500;
/** Milliseconds by which a key outlasts its longest use. */
const MARGIN_MS = 60_000;
/** Bytes of Redis' memory that an ended prediction needs besides its record, for the retention limit. */
const KEPT_BYTES = 704;
/** Milliseconds for which a large outcome is kept for waiting clients, even above the retention limits. */
const FETCH_MS = 2000;
/** Milliseconds for which the events of an ended prediction are kept for event streams. */
const EVENTS_MS = 10_000;
/** Count limit of retained predictions if the operator set none. */
export const NO_LIMIT = 1e15;

const prelude = `
local base, me = string.sub(KEYS[1], 1, -5), ARGV[2]
local work, soon, kept, totals, hooks, due = KEYS[1], base .. 'soon', base .. 'kept', base .. 'totals', base .. 'hooks', base .. 'due'
local signs = base .. 'signs'
local retainMs, maxKept, maxKeptBytes, webhookLeaseMs = string.match(ARGV[1], '(%S+) (%S+) (%S+) (%S+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function textOf(number) return string.format('%.0f', number) end
local nowText = textOf(now)

local items, bytes, ended, size, hasLong = 0, 0, 0, 0, 0
local known, acked, closed, staleKeys, fields, mails, dueHooks = {}, {}, {}, {}, {}, {}, {}

-- A write that frees memory. After it Redis accepts the other writes of the script even when its memory is full.
local function freeing() redis.call('HDEL', totals, '-') end

local function hashOf(id) return base .. 'p:' .. string.sub(id, 2, 5) end

-- Groups ids by their hash.
local function hashesOf(ids)
  local hashes = {}
  for _, id in ipairs(ids) do
    local hash = hashOf(id)
    local list = hashes[hash]
    if list then list[#list + 1] = id else hashes[hash] = { id } end
  end
  return hashes
end

local function load(ids)
  for hash, list in pairs(hashesOf(ids)) do
    local found = redis.call('HMGET', hash, unpack(list))
    for i, id in ipairs(list) do known[id] = found[i] end
  end
end

local function set(id, text)
  known[id] = text
  local hash = hashOf(id)
  local list = fields[hash]
  if not list then
    list = {}
    fields[hash] = list
  end
  list[#list + 1] = id
  list[#list + 1] = text
end

-- Whether a prediction exists and is unfinished.
local function isOpen(id)
  local found = known[id]
  return found and string.byte(found) == 126
end

-- Kind, time limit, deadline and entry of an unfinished prediction.
local function factsOf(id)
  return string.match(known[id], '^~ (%S+) %S+ %S+ (%S+) %S* %S+ (%S+) (%S+)')
end

local function entryOf(id)
  local _, _, _, entry = factsOf(id)
  return entry
end

-- The node that has claimed an entry, and the number of deliveries.
local function holderOf(entry)
  local pending = redis.pcall('XPENDING', work, 'workers', entry, entry, 1)
  if pending.err or not pending[1] then return nil end
  return pending[1][2], pending[1][4]
end

-- Items done, logs and start time that the worker has reported.
local function progressOf(id)
  local done, logs, started = unpack(redis.call('HMGET', base .. 't:' .. id, 'done', 'logs', 'started'))
  return done or '0', logs or '', started or ''
end

local function isCancelled(id) return redis.call('HEXISTS', base .. 't:' .. id, 'cancelled') == 1 end

-- Deliveries before the entry with this head, and the head up to them.
local function deliveriesOf(head)
  local before, count = string.match(head, '^(.* )(%d+)$')
  return count, before
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

-- Name of a log of events, number of its dropped events, bytes of the others; nil for a missing log.
local function logOf(key)
  local name, dropped, size_ = string.match(redis.call('LINDEX', key, 0) or '', '^(%S+) (%d+) (%d+)$')
  return name, tonumber(dropped), tonumber(size_)
end

-- Stores an outcome; the first one stands. Without inputs and logs it uses the reported progress.
local function finish(id, status, members, inputs, logs, started, model)
  if not isOpen(id) then return end
  local meta, count, size_, isLarge, created, entry, digest, fronts =
    string.match(known[id], '^~ (%S+ (%S+) (%S+) %S+) (%S*) (%S+) %S+ (%S+) (%S*) (.*)$')
  local isOwn = inputs
  if not inputs then inputs, logs, started = progressOf(id) end
  local record = id .. ' ' .. meta .. ' ' .. created .. ' ' .. inputs .. ' ' .. started .. ' ' .. nowText .. ' ' .. status .. ' ' .. #logs .. ' '
    .. (model or '') .. ' ' .. digest .. '\\n' .. logs .. members
  set(id, record)
  size = size + #record + ${KEPT_BYTES}
  acked[#acked + 1] = entry
  closed[#closed + 1] = id
  staleKeys[#staleKeys + 1] = base .. 't:' .. id
  redis.call('PEXPIRE', base .. 'e:' .. id, ${EVENTS_MS})
  if isLarge == '1' then staleKeys[#staleKeys + 1] = base .. 'b:' .. id end
  items = items - count
  bytes = bytes - size_
  if isOwn then ended = ended + 1 end
  local isLong = #record > ${MAX_MAIL_BYTES}
  if isLong then hasLong = 1 end
  for node in string.gmatch(fronts, '[^,]+') do
    if node == '!' then
      dueHooks[#dueHooks + 1] = textOf(now + (isOwn and webhookLeaseMs or 0))
      dueHooks[#dueHooks + 1] = id
    elseif isLong then mail(node, 'long', id) else mail(node, 'end', record) end
  end
end

-- Deletes an entry without an unfinished prediction. The hash of the prediction may have expired first, while no replica ran: then the totals still
-- count the prediction.
local function discard(entry, head)
  acked[#acked + 1] = entry
  local id, count, size_ = string.match(head, '^(%S+) %S+ (%S+) (%S+)')
  if id and known[id] then return end
  items = items - (tonumber(count) or 0)
  bytes = bytes - (tonumber(size_) or 0)
  if id then redis.call('HDEL', hooks, id) end
end

-- Evicts the oldest ended predictions beyond the retention limits. Returns the remaining count and bytes.
local function evict(count, allBytes, most)
  for _ = 1, most do
    local batch = redis.call('LINDEX', kept, 0)
    if not batch then return 0, 0 end
    local at, number, size_, isLong, ids = string.match(batch, '^(%S+) (%S+) (%S+) (%S+) (.*)$')
    local isWithin = count <= tonumber(maxKept) and allBytes <= tonumber(maxKeptBytes)
    local isFetched = isLong == '1' and at + ${FETCH_MS} > now
    if at + retainMs > now and (isWithin or isFetched) then break end
    redis.call('LPOP', kept)
    local list = {}
    for id in string.gmatch(ids, '%S+') do list[#list + 1] = id end
    for hash, each in pairs(hashesOf(list)) do redis.call('HDEL', hash, unpack(each)) end
    count, allBytes = count - number, allBytes - size_
  end
  return count, allBytes
end

-- Writes the collected changes.
local function settle(most)
  for hash, list in pairs(fields) do redis.call('HSET', hash, unpack(list)) end
  if #closed > 0 then
    redis.call('XACK', work, 'workers', unpack(acked))
    redis.call('XDEL', work, unpack(acked))
    redis.call('ZREM', soon, unpack(closed))
    redis.call('DEL', unpack(staleKeys))
    redis.call('RPUSH', kept, nowText .. ' ' .. #closed .. ' ' .. size .. ' ' .. hasLong .. ' ' .. table.concat(closed, ' '))
  elseif #acked > 0 then
    redis.call('XACK', work, 'workers', unpack(acked))
    redis.call('XDEL', work, unpack(acked))
  end
  if items ~= 0 or #closed > 0 or most then
    local h = redis.call('HMGET', totals, 'items', 'bytes', 'ended', 'kept', 'keptBytes')
    for i = 1, 5 do h[i] = tonumber(h[i] or 0) end
    h[4], h[5] = h[4] + #closed, h[5] + size
    if most or #closed > 0 then h[4], h[5] = evict(h[4], h[5], most or 2) end
    redis.call('HSET', totals, 'items', textOf(h[1] + items), 'bytes', textOf(h[2] + bytes), 'ended', textOf(h[3] + ended),
      'kept', textOf(h[4]), 'keptBytes', textOf(h[5]))
  end
  if #dueHooks > 0 then redis.call('ZADD', due, unpack(dueHooks)) end
  for node, letter in pairs(mails) do
    local key = base .. 'mail:' .. node
    redis.call('XADD', key, 'MAXLEN', '~', ${MAX_MAILS}, '*', unpack(letter))
    redis.call('PEXPIRE', key, ${MAIL_MS})
  end
end

-- Whether the deadline of an unfinished prediction has passed.
local function isDue(id)
  local _, _, deadline = factsOf(id)
  return tonumber(deadline) <= now
end

-- Ends an expired prediction. Its worker has a grace period, unless isReleased says that the worker does not run it.
local function expire(id, isReleased)
  if not isOpen(id) then return false end
  local _, limit, deadline, entry = factsOf(id)
  if tonumber(deadline) > now then return false end
  if not isReleased and deadline + ${GRACE_MS} > now and holderOf(entry) then return false end
  freeing()
  local seconds = math.floor(limit / 10 + 0.5) / 100
  finish(id, 'failed', '"error_message":"Timed out after ' .. seconds .. ' s"')
  return true
end

local function cancel(id) finish(id, 'failed', '"error_message":"Canceled"') end

-- Subscribes a node to the outcome.
local function subscribe(id, node)
  if not isOpen(id) or string.find(string.match(known[id], '%S*$'), node, 1, true) then return end
  freeing()
  local text = known[id]
  set(id, text .. (string.sub(text, -1) == ' ' and '' or ',') .. node)
end

-- Returns false for an unknown id.
local function recordOf(id)
  if not isOpen(id) then return known[id] or false end
  local done, logs, started = progressOf(id)
  local meta, created, digest = string.match(known[id], '^~ (%S+ %S+ %S+ %S+) %S* (%S+) %S+ %S+ (%S*)')
  return table.concat({ id, meta, created, done, started, '', '', #logs, '', digest }, ' ') .. '\\n' .. logs
end

-- The record, or its size when the answer has no room for it. Clients then read it with a time limit that fits the size.
local room = ${LARGE_VALUE_BYTES}
local function recordOrSizeOf(id)
  local record = recordOf(id)
  if not record then return false end
  if #record > room then return #record end
  room = room - #record
  return record
end

-- Lifetime of the keys of a prediction with this time limit.
local function lifetimeOf(limit) return textOf(limit + retainMs + ${MARGIN_MS}) end
`;

/** Creates a script of the queue, which begins with the shared Lua functions. */
export function queueScript(text: string): LuaScript {
  return new LuaScript(prelude + text);
}
