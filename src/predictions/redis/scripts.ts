/**
 * Lua scripts of the queue. Each runs atomically, and its `KEYS` are all keys that it uses. A node is a replica, and a worker is a node that runs
 * predictions. A worker claims a prediction for the time of a lease, and renews the lease. After the lease, another worker may claim the prediction.
 *
 * All keys of a model's repository are in one slot of a Cluster:
 *
 * - `p:ID`: a hash of a prediction: the fields of `RECORD_FIELDS`, and `webhook`. An unfinished prediction also has `queue`, `entry` (of `work`), `bytes`,
 *   `deadline`, `deaths`, `fronts` (nodes whose clients wait), `watched` (by an event stream), `eventBytes`, `canceled`, and a large `body`
 * - `work:QUEUE`: a stream with one entry for each unfinished prediction of a queue, which the consumer group `workers` reads
 * - `totals:QUEUE`: a hash of numbers: unfinished `items`, their `bytes`, and predictions `ended` by workers
 * - `workers:QUEUE`: a sorted set of workers by the time of their last sign of life
 * - `deadlines`: a sorted set of unfinished predictions
 * - `due`: a sorted set of ended predictions with undelivered webhooks, by the end of the lease of the node that sends the webhook
 * - `e:ID`: a stream of the events of a running prediction, numbered from 1-0 on: name of the log, and text of the event
 * - `mail:NODE`: a stream of notifications for a node
 *
 * Unfinished predictions have no time to live, so that a Redis with the policy `volatile-ttl` evicts ended ones only. Times are milliseconds of Redis'
 * clock.
 */
import { RECORD_FIELDS } from "./record-fields.ts";
import { LuaScript } from "./redis-link.ts";

/** A prediction fails when this many replicas have ended while they ran it, because it may be the cause. */
const MAX_DEATHS = 2;
/** Milliseconds after the deadline in which the worker can end the prediction with its outputs so far. Then any replica ends it. */
const GRACE_MS = 1500;
/** A larger body is in the prediction's hash instead of its stream entry, because scripts read entries whole. */
const MAX_ENTRY_BYTES = 65_536;
/** Maximum predictions that one call finds late. */
const MAX_LATE = 100;
/** Milliseconds after which the keys of an empty queue without a replica expire. */
const UNUSED_MS = 86_400_000;

export const clock = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** The worker that has claimed an entry, and the number of deliveries. */
export const holder = `
local function holderOf(entry)
  local pending = redis.pcall('XPENDING', KEYS[1], 'workers', entry, entry, 1)
  if pending.err or not pending[1] then return nil end
  return pending[1][2], pending[1][4]
end
`;

/**
 * `KEYS` of scripts that end predictions: work, totals, deadlines, due, then `p:ID` of each prediction. The first arguments are the retention time, and
 * the lease of this node's webhooks. The answer begins with the time, followed by the id of each ended prediction and its waiting nodes.
 */
const ending = `${clock}${holder}
local work, totals, deadlines, due = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local answer, entries, ids, items, bytes, ended = { now }, {}, {}, 0, 0, 0
-- A full Redis accepts this write, and then the other writes of the script.
redis.call('HDEL', totals, '-')

-- Stores the outcome of an unfinished prediction.
local function finish(key, isOwn, ...)
  local entry, id, count, size, fronts, webhook =
    unpack(redis.call('HMGET', key, 'entry', 'id', 'count', 'bytes', 'fronts', 'webhook'))
  if not entry then return end
  redis.call('HDEL', key, 'entry', 'queue', 'bytes', 'deadline', 'deaths', 'fronts', 'watched', 'eventBytes', 'canceled', 'body')
  redis.call('HSET', key, 'finished', now, ...)
  redis.call('PEXPIRE', key, ARGV[1])
  if webhook then redis.call('ZADD', due, now + (isOwn and ARGV[2] or 0), id) end
  items, bytes = items + count, bytes + size
  if isOwn then ended = ended + 1 end
  ids[#ids + 1] = id
  entries[#entries + 1] = entry
  answer[#answer + 1] = id
  answer[#answer + 1] = fronts
end

local function fail(key, message)
  finish(key, false, 'status', 'failed', 'members', '"error_message":"' .. message .. '"')
end

local function drop(entries)
  redis.call('XACK', work, 'workers', unpack(entries))
  redis.call('XDEL', work, unpack(entries))
end

local function settle()
  if #ids == 0 then return answer end
  drop(entries)
  redis.call('ZREM', deadlines, unpack(ids))
  redis.call('HINCRBY', totals, 'items', 0 - items)
  redis.call('HINCRBY', totals, 'bytes', 0 - bytes)
  redis.call('HINCRBY', totals, 'ended', ended)
  return answer
end
`;

/**
 * Adds predictions to a queue. `KEYS`: work, totals, deadlines, due, `p:ID` of each prediction. Arguments: maximum items, maximum bytes, name of the
 * queue; for each prediction id, kind, count, bytes, time limit, waiting node, digest, watched, origin, webhook, body. A digest means that a client chose
 * the id, which must be new.
 * @returns number of unfinished inputs, the time; for each prediction 0 if it was added, -1 for too many items, -2 for too many bytes, -3 if the id exists
 */
export const acceptScript = new LuaScript(`${clock}
local work, totals, deadlines, due = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local before = redis.call('HMGET', totals, 'items', 'bytes')
local items, bytes = tonumber(before[1] or 0), tonumber(before[2] or 0)
local answer, addedItems, addedBytes = { items, now }, 0, 0
for k = 5, #KEYS do
  local key, i = KEYS[k], 4 + 11 * (k - 5)
  local id, kind, count, size, limit, front, digest, watched, origin, webhook, body = unpack(ARGV, i, i + 10)
  if digest ~= '' and redis.call('EXISTS', key) == 1 then answer[#answer + 1] = -3
  elseif items + addedItems + count > tonumber(ARGV[1]) then answer[#answer + 1] = -1
  elseif bytes + addedBytes > 0 and bytes + addedBytes + size > tonumber(ARGV[2]) then answer[#answer + 1] = -2
  else
    local deadline, isLarge = now + limit, #body > ${MAX_ENTRY_BYTES}
    local entry = redis.call('XADD', work, '*', 'id', id, 'kind', kind, 'count', count, 'bytes', size, 'timeout', limit, 'created', now,
      'deadline', deadline, 'front', front, 'digest', digest, 'origin', origin, 'webhook', webhook, 'body', isLarge and '' or body)
    redis.call('HSET', key, 'id', id, 'kind', kind, 'count', count, 'bytes', size, 'created', now, 'deadline', deadline, 'fronts', front,
      'queue', ARGV[3], 'entry', entry)
    if digest ~= '' then redis.call('HSET', key, 'digest', digest) end
    if watched ~= '' then redis.call('HSET', key, 'watched', watched) end
    if webhook ~= '' then redis.call('HSET', key, 'webhook', webhook) end
    if isLarge then redis.call('HSET', key, 'body', body) end
    redis.call('ZADD', deadlines, deadline, id)
    -- A webhook of an earlier prediction with this id is obsolete.
    if digest ~= '' then redis.call('ZREM', due, id) end
    addedItems, addedBytes = addedItems + count, addedBytes + size
    answer[#answer + 1] = 0
  end
end
if addedItems > 0 then
  redis.call('HINCRBY', totals, 'items', addedItems)
  redis.call('HINCRBY', totals, 'bytes', addedBytes)
  redis.call('PERSIST', totals)
  redis.call('PERSIST', work)
end
return answer
`);

/**
 * Stores outcomes; the first one of a prediction stands. Further arguments for each prediction: status, JSON members, milliseconds since the start or "",
 * inputs done, logs, model.
 */
export const finishScript = new LuaScript(`${ending}
for k = 5, #KEYS do
  local status, members, ago, done, logs, model = unpack(ARGV, 3 + 6 * (k - 5), 8 + 6 * (k - 5))
  finish(KEYS[k], true, 'status', status, 'members', members, 'started', ago ~= '' and now - ago or '', 'done', done, 'logs', logs,
    'model', model)
end
return settle()
`);

/**
 * Ends predictions without an outcome of a worker. Further argument: `cancel` unless a worker runs the prediction, which is then notified; `force` to
 * cancel it in any case; `late` if its time limit has passed, with a grace period for its worker; `dropped` without that period.
 * @returns for `cancel`, the worker that is to be notified
 */
export const endScript = new LuaScript(`${ending}
local mode = ARGV[3]
for k = 5, #KEYS do
  local key = KEYS[k]
  local entry, created, deadline = unpack(redis.call('HMGET', key, 'entry', 'created', 'deadline'))
  local worker = entry and holderOf(entry)
  if entry and (mode == 'force' or mode == 'cancel' and not worker) then fail(key, 'Canceled')
  elseif entry and mode == 'cancel' then
    redis.call('HSET', key, 'canceled', '1')
    return worker
  elseif entry and tonumber(deadline) <= now and (mode == 'dropped' or not worker or deadline + ${GRACE_MS} <= now) then
    fail(key, 'Timed out after ' .. math.floor((deadline - created) / 10 + 0.5) / 100 .. ' s')
  end
end
return settle()
`);

/**
 * Claims predictions whose leases have ended. Further arguments: this node, lease in milliseconds; the entry of each prediction.
 * @returns the entries of claimed predictions, the number of failed ones, and the answer of scripts that end predictions
 */
export const reclaimScript = new LuaScript(`${ending}
local claimed, failed = {}, 0
for k = 5, #KEYS do
  local key, entry = KEYS[k], ARGV[k]
  local pending = redis.call('XPENDING', work, 'workers', 'IDLE', ARGV[4], entry, entry, 1)[1]
  local own, deadline, canceled, deaths = unpack(redis.call('HMGET', key, 'entry', 'deadline', 'canceled', 'deaths'))
  if pending and own ~= entry then drop({ entry })
  elseif pending and canceled then fail(key, 'Canceled')
  elseif pending and tonumber(deadline) > now then
    -- An entry of this node is here because the answer of an earlier claim was lost.
    local isMine = pending[2] == ARGV[3]
    local tries = pending[4] + (isMine and 0 or 1)
    if (deaths or 0) + tries > ${MAX_DEATHS} then
      fail(key, 'Given up: ${MAX_DEATHS} replicas ended, or were cut off, while they had this; it is not run again')
      failed = failed + 1
    else
      redis.call('XCLAIM', work, 'workers', ARGV[3], 0, entry, 'RETRYCOUNT', tries, 'JUSTID')
      if not isMine then redis.call('HDEL', key, 'done', 'logs', 'started') end
      claimed[#claimed + 1] = entry
    end
  end
end
return { claimed, failed, settle() }
`);

/** Returns predictions to the queue: an orderly stop is no attempt. Further argument: this node. */
export const giveBackScript = new LuaScript(`${ending}
for k = 5, #KEYS do
  local key = KEYS[k]
  local entry, canceled = unpack(redis.call('HMGET', key, 'entry', 'canceled'))
  local worker, tries
  if entry then worker, tries = holderOf(entry) end
  if worker == ARGV[3] and canceled then fail(key, 'Canceled')
  elseif worker == ARGV[3] then
    local again = redis.call('XADD', work, '*', unpack(redis.call('XRANGE', work, entry, entry)[1][2]))
    drop({ entry })
    redis.call('HSET', key, 'entry', again)
    redis.call('HINCRBY', key, 'deaths', tries - 1)
    redis.call('HDEL', key, 'done', 'logs', 'started')
  end
end
return settle()
`);

/**
 * Renews the leases of predictions. `KEYS`: work, `p:ID` of each prediction. Argument: this node.
 * @returns for each prediction 0, 1 if this node has lost it, or 2 if it is canceled
 */
export const renewScript = new LuaScript(`${holder}
local answer, entries = {}, {}
for k = 2, #KEYS do
  local entry, canceled = unpack(redis.call('HMGET', KEYS[k], 'entry', 'canceled'))
  local isMine = entry and holderOf(entry) == ARGV[1]
  if isMine then entries[#entries + 1] = entry end
  answer[k - 1] = not isMine and 1 or canceled and 2 or 0
end
if #entries > 0 then
  entries[#entries + 1] = 'JUSTID'
  redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], 0, unpack(entries))
end
return answer
`);

/**
 * Stores the progress of predictions. `KEYS`: work, `p:ID` of each prediction. Arguments: this node; for each prediction milliseconds since the start
 * or "", inputs done, bytes of the logs that Redis has, the logs after them.
 */
export const progressScript = new LuaScript(`${clock}${holder}
for k = 2, #KEYS do
  local key = KEYS[k]
  local ago, done, known, more = unpack(ARGV, 4 * k - 6, 4 * k - 3)
  local entry, logs, started = unpack(redis.call('HMGET', key, 'entry', 'logs', 'started'))
  if entry and holderOf(entry) == ARGV[1] then
    redis.call('HSET', key, 'done', done)
    if ago ~= '' and not started then redis.call('HSET', key, 'started', now - ago) end
    if more ~= '' then redis.call('HSET', key, 'logs', string.sub(logs or '', 1, known) .. more) end
  end
end
return 0
`);

/**
 * Reads predictions. `KEYS`: `p:ID` of each prediction. Arguments: maximum bytes of the answer; for each prediction the node that is notified of the
 * end, or "".
 * @returns for each prediction the values of RECORD_FIELDS, or the size of a prediction that is too large for the answer
 */
export const readScript = new LuaScript(`
local answer, room = {}, tonumber(ARGV[1])
for k, key in ipairs(KEYS) do
  local node = ARGV[k + 1]
  local entry, fronts = unpack(redis.call('HMGET', key, 'entry', 'fronts'))
  if entry and node ~= '' and not string.find(fronts, node, 1, true) then
    redis.pcall('HSET', key, 'fronts', fronts .. ' ' .. node)
  end
  local size = redis.call('HSTRLEN', key, 'members') + redis.call('HSTRLEN', key, 'logs')
  if size > room then answer[k] = size
  else
    room = room - size
    answer[k] = redis.call('HMGET', key, ${RECORD_FIELDS.map((name) => `'${name}'`).join(", ")})
  end
end
return answer
`);

/**
 * Reads the figures of a queue. `KEYS`: work, totals, workers, deadlines, the node's mail, an unused key. Arguments: node, whether it is a worker, lease,
 * id of the last notification that it has read.
 * @returns time, unfinished items, predictions ended by workers, unclaimed entries, claimed entries, age of the oldest unclaimed entry,
 * workers, whether the memory of Redis is full, then ids of predictions whose time limit has passed
 */
export const tendScript = new LuaScript(`${clock}
local work, totals, workers = KEYS[1], KEYS[2], KEYS[3]
-- Writes nothing. Redis refuses the command while its memory is full, and before the first write of a script.
local probed = redis.pcall('SETRANGE', KEYS[6], 0, '')
local isFull = type(probed) == 'table' and string.find(probed.err, 'OOM', 1, true)
redis.call('XTRIM', KEYS[5], 'MINID', ARGV[4])
local sinceMs = math.max(5000, tonumber(ARGV[3]))
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now - sinceMs)
if ARGV[2] == '1' then redis.call('ZADD', workers, now, ARGV[1]) end
redis.call('PEXPIRE', workers, ${UNUSED_MS})
local waiting, taken, age, delivered = redis.call('XLEN', work), 0, 0, '0-0'
if waiting == 0 then
  -- A script that failed after some of its writes leaves wrong totals.
  redis.call('HSET', totals, 'items', 0, 'bytes', 0)
  redis.call('PEXPIRE', totals, ${UNUSED_MS})
  redis.call('PEXPIRE', work, ${UNUSED_MS})
end
local groups = redis.pcall('XINFO', 'GROUPS', work)
if not groups.err and groups[1] then
  local group = {}
  for i = 1, #groups[1], 2 do group[groups[1][i]] = groups[1][i + 1] end
  taken = group['pending']
  waiting = waiting - taken
  delivered = group['last-delivered-id']
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', work, 'workers')) do
    local name, pending, idle = consumer[2], consumer[4], consumer[6]
    if pending == 0 and idle > math.max(60000, sinceMs) then redis.call('XGROUP', 'DELCONSUMER', work, 'workers', name) end
  end
end
local oldest = redis.call('XRANGE', work, '(' .. delivered, '+', 'COUNT', 1)[1]
if oldest then age = math.max(0, now - string.match(oldest[1], '^%d+')) end
local total = redis.call('HMGET', totals, 'items', 'ended')
local late = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, ${MAX_LATE})
return { now, tonumber(total[1] or 0), tonumber(total[2] or 0), waiting, taken, age, redis.call('ZCARD', workers),
  isFull and 1 or 0, unpack(late) }
`);

/**
 * Deletes delivered webhooks, renews leases, and claims webhooks without a lease. `KEYS`: due, `p:ID` of each prediction. Arguments: lease in
 * milliseconds; for each prediction its id, and its creation time with the prefix `-` if the webhook is delivered, or "" to claim the webhook.
 * @returns number of undelivered webhooks, then id, creation time and webhook of each claimed webhook
 */
export const webhookScript = new LuaScript(`${clock}
local due, answer = KEYS[1], {}
for k = 2, #KEYS do
  local id, named = ARGV[2 * k - 2], ARGV[2 * k - 1]
  local created, webhook = unpack(redis.call('HMGET', KEYS[k], 'created', 'webhook'))
  local score = redis.call('ZSCORE', due, id)
  -- The prediction has expired, or a later one may have the same id.
  if score and not created or score and named == '-' .. created then redis.call('ZREM', due, id)
  elseif score and named == created then redis.call('ZADD', due, now + ARGV[1], id)
  elseif score and named == '' and tonumber(score) <= now then
    redis.call('ZADD', due, now + ARGV[1], id)
    for _, each in ipairs({ id, created, webhook }) do answer[#answer + 1] = each end
  end
end
return { redis.call('ZCARD', due), unpack(answer) }
`);
