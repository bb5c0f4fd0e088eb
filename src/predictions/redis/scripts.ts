/** Lua scripts of the queue. Each runs atomically, and its `KEYS` are all keys that it uses. keys.ts describes the keys. */
import { LuaScript } from "./redis-link.ts";

/** A larger body is in the prediction's hash instead of its stream entry, because commands and scripts read entries whole. */
const MAX_ENTRY_BYTES = 65_536;
/** Maximum bytes of a prediction's events in Redis. The oldest pages are dropped, but never the newest. */
const MAX_EVENT_BYTES = 2 ** 24;
/** Milliseconds after the deadline for which the events are kept for event streams. */
const MARGIN_MS = 10_000;

const clock = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** The worker that has claimed an entry, and the number of deliveries. */
const holder = `
local function holderOf(entry)
  local pending = redis.pcall('XPENDING', KEYS[1], 'workers', entry, entry, 1)
  if pending.err or not pending[1] then return nil end
  return pending[1][2], pending[1][4]
end
`;

/**
 * Adds predictions to a queue.
 * - `KEYS`: work, totals, deadlines; for each prediction `p:ID`
 * - Arguments: maximum items, maximum bytes, name of the queue; for each prediction the variables `id` to `body` of the loop. A digest means that a client
 *   chose the id, which must be new
 * @returns number of unfinished inputs, the time; for each prediction 0 if added, -1 for too many items, -2 for too many bytes, -3 if the id exists
 */
export const acceptScript = new LuaScript(`${clock}
local work, totals, deadlines = KEYS[1], KEYS[2], KEYS[3]
local before = redis.call('HMGET', totals, 'items', 'bytes')
local items, bytes = tonumber(before[1] or 0), tonumber(before[2] or 0)
local answer, addedItems, addedBytes = { items, now }, 0, 0
for k = 4, #KEYS do
  local key, i = KEYS[k], 4 + 11 * (k - 4)
  local id, kind, count, size, limit, front, digest, watched, webhook, request, body = unpack(ARGV, i, i + 10)
  if digest ~= '' and redis.call('EXISTS', key) == 1 then answer[#answer + 1] = -3
  elseif items + addedItems + count > tonumber(ARGV[1]) then answer[#answer + 1] = -1
  elseif bytes + addedBytes > 0 and bytes + addedBytes + size > tonumber(ARGV[2]) then answer[#answer + 1] = -2
  else
    local deadline, isLarge = now + limit, #body > ${MAX_ENTRY_BYTES}
    local entry = redis.call('XADD', work, '*', 'request', request, 'created', now, 'deaths', 0, 'body', isLarge and '' or body)
    redis.call('HSET', key, 'id', id, 'kind', kind, 'count', count, 'bytes', size, 'created', now, 'deadline', deadline, 'fronts', front,
      'queue', ARGV[3], 'entry', entry)
    if digest ~= '' then redis.call('HSET', key, 'digest', digest) end
    if watched ~= '' then redis.call('HSET', key, 'watched', watched) end
    if webhook ~= '' then redis.call('HSET', key, 'webhook', webhook) end
    if isLarge then redis.call('HSET', key, 'body', body) end
    redis.call('ZADD', deadlines, deadline, id)
    addedItems, addedBytes = addedItems + count, addedBytes + size
    answer[#answer + 1] = 0
  end
end
if addedItems > 0 then
  redis.call('HINCRBY', totals, 'items', addedItems)
  redis.call('HINCRBY', totals, 'bytes', addedBytes)
end
return answer
`);

/**
 * Stores outcomes. The first outcome of a prediction stands.
 * - `KEYS`: work, totals, deadlines, due; for each prediction `p:ID`
 * - Arguments: retention time, lease of this node's webhooks, which predictions to end; for each prediction the number of further arguments, then names and
 *   values of fields. Predictions to end: `worker` for the caller's, `unclaimed` if no worker runs the prediction, or `any`
 * @returns the time; for each prediction 1 and the waiting nodes if this call ended it, 2 and the worker if the worker must end it, or 0
 */
export const finishScript = new LuaScript(`${clock}${holder}
local work, totals, deadlines, due = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local answer, entries, ids, items, bytes, at = { now }, {}, {}, 0, 0, 4
-- A full Redis accepts this write, and then the other writes of the script.
redis.call('HDEL', totals, '-')
for k = 5, #KEYS do
  local key, n = KEYS[k], tonumber(ARGV[at])
  local entry, id, created, count, size, fronts, webhook =
    unpack(redis.call('HMGET', key, 'entry', 'id', 'created', 'count', 'bytes', 'fronts', 'webhook'))
  local worker = entry and ARGV[3] == 'unclaimed' and holderOf(entry)
  if not entry then answer[k - 3] = { 0 }
  elseif worker then answer[k - 3] = { 2, worker }
  else
    redis.call('HDEL', key, 'entry', 'queue', 'bytes', 'deadline', 'fronts', 'watched', 'eventBytes', 'body')
    redis.call('HSET', key, 'finished', now, unpack(ARGV, at + 1, at + n))
    redis.call('PEXPIRE', key, ARGV[1])
    if webhook then redis.call('ZADD', due, now + ARGV[2], id .. ' ' .. created) end
    items, bytes = items + count, bytes + size
    entries[#entries + 1] = entry
    ids[#ids + 1] = id
    answer[k - 3] = { 1, fronts }
  end
  at = at + n + 1
end
if #ids > 0 then
  redis.call('XACK', work, 'workers', unpack(entries))
  redis.call('XDEL', work, unpack(entries))
  redis.call('ZREM', deadlines, unpack(ids))
  redis.call('HINCRBY', totals, 'items', 0 - items)
  redis.call('HINCRBY', totals, 'bytes', 0 - bytes)
  if ARGV[3] == 'worker' then redis.call('HINCRBY', totals, 'ended', #ids) end
end
return answer
`);

/**
 * Returns predictions to the queue: an orderly stop is no death. `KEYS`: work, `p:ID` of each prediction. Arguments: this node; milliseconds after which an
 * idle worker has ended, or "" if this node remains a worker.
 */
export const giveBackScript = new LuaScript(`${holder}
local work, node = KEYS[1], ARGV[1]
for k = 2, #KEYS do
  local key = KEYS[k]
  local entry = redis.call('HGET', key, 'entry')
  local worker, deliveries
  if entry then worker, deliveries = holderOf(entry) end
  if worker == node then
    local fields = redis.call('XRANGE', work, entry, entry)[1][2]
    fields[6] = fields[6] + deliveries - 1
    local again = redis.call('XADD', work, '*', unpack(fields))
    redis.call('XACK', work, 'workers', entry)
    redis.call('XDEL', work, entry)
    redis.call('HSET', key, 'entry', again)
    redis.call('HDEL', key, 'done', 'logs', 'started')
  end
end
if ARGV[2] ~= '' then
  local consumers = redis.pcall('XINFO', 'CONSUMERS', work, 'workers')
  for _, consumer in ipairs(consumers.err and {} or consumers) do
    local name, pending, idle = consumer[2], consumer[4], consumer[6]
    if pending == 0 and (name == node or idle > tonumber(ARGV[2])) then
      redis.call('XGROUP', 'DELCONSUMER', work, 'workers', name)
    end
  end
end
return 0
`);

/**
 * Renews leases, and stores the progress of predictions.
 * - `KEYS`: work; for each prediction `p:ID` and `e:ID`
 * - Arguments: this node; for each prediction the number of further arguments, then its progress, if any
 * - Progress: time of the start or "", inputs done, bytes of the logs in Redis, later logs; then, with new events, names and values of a page
 * @returns for each prediction 0 if this node has lost it, 1 if no event stream watches it, or its waiting nodes
 */
export const renewScript = new LuaScript(`${clock}${holder}
local answer, entries, at = {}, {}, 2
for k = 2, #KEYS, 2 do
  local key, events, n = KEYS[k], KEYS[k + 1], tonumber(ARGV[at])
  local entry, watched, fronts, deadline, size =
    unpack(redis.call('HMGET', key, 'entry', 'watched', 'fronts', 'deadline', 'eventBytes'))
  if not entry or holderOf(entry) ~= ARGV[1] then answer[k / 2] = 0
  else
    entries[#entries + 1] = entry
    answer[k / 2] = watched and fronts or 1
    if n > 0 then
      local started, done, known, more = unpack(ARGV, at + 1, at + 4)
      redis.call('HSET', key, 'done', done, 'started', started)
      if more ~= '' then redis.call('HSET', key, 'logs', string.sub(redis.call('HGET', key, 'logs') or '', 1, known) .. more) end
    end
    if n > 4 and watched then
      redis.call('XADD', events, '*', unpack(ARGV, at + 5, at + n))
      size = size or 0
      for i = at + 5, at + n do size = size + #ARGV[i] end
      while size > ${MAX_EVENT_BYTES} and redis.call('XLEN', events) > 1 do
        local oldest = redis.call('XRANGE', events, '-', '+', 'COUNT', 1)[1]
        for _, each in ipairs(oldest[2]) do size = size - #each end
        redis.call('XDEL', events, oldest[1])
      end
      redis.call('HSET', key, 'eventBytes', size)
      redis.call('PEXPIRE', events, math.max(0, deadline - now) + ${MARGIN_MS})
    end
  end
  at = at + n + 1
end
if #entries > 0 then
  entries[#entries + 1] = 'JUSTID'
  redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], 0, unpack(entries))
end
return answer
`);

/**
 * Notifies a node of the end of an unfinished prediction, and perhaps of its events. `KEYS`: `p:ID`. Arguments: node, `1` to watch the prediction.
 * @returns its queue and its entry in `work`, if nobody watched it before
 */
export const followScript = new LuaScript(`
local entry, queue, fronts, watched = unpack(redis.call('HMGET', KEYS[1], 'entry', 'queue', 'fronts', 'watched'))
if not entry then return false end
if not string.find(fronts, ARGV[1], 1, true) then redis.call('HSET', KEYS[1], 'fronts', fronts .. ' ' .. ARGV[1]) end
if ARGV[2] ~= '1' or watched then return false end
redis.call('HSET', KEYS[1], 'watched', '1')
return { queue, entry }
`);
