/** Lua scripts of the queue. Each runs atomically, and its `KEYS` are all keys that it uses. keys.ts describes the keys. */
/** Maximum bytes of a prediction's events in Redis. The oldest pages are dropped, but never the newest. */
const MAX_EVENT_BYTES = 2 ** 24;
/** Milliseconds after the deadline for which the events are kept for event streams. */
const MARGIN_MS = 10_000;

/** Milliseconds after which the keys of an empty queue without a replica expire. */
const UNUSED_MS = 86_400_000;
/** Milliseconds after the deadline in which the worker can end the prediction with its outputs so far. Then any node ends it. */
const GRACE_MS = 1500;
/** Maximum predictions that one poll ends because their time limit has passed. */
const MAX_LATE = 100;

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
 * Sends a message to nodes: names with spaces between them. Without the right to do so, the script goes on, because all or none of the writes must happen.
 * Nodes then find changes by polls, and `pollScript` reports the missing right.
 */
const send = `
local function send(nodes, message)
  for node in string.gmatch(nodes, '%S+') do redis.pcall('PUBLISH', node, message) end
end
`;

/**
 * Adds predictions to a queue.
 * - `KEYS`: work, totals, deadlines; for each prediction `p:ID`
 * - Arguments: maximum items, maximum bytes, name of the queue; for each prediction the variables `id` to `n` of the loop, then `n` names and values of
 *   fields
 * @returns number of unfinished inputs, the time; for each prediction "" if added, else the limit that refuses it. An id that exists counts as `queue`
 */
export const acceptScript = `${clock}
local work, totals, deadlines = KEYS[1], KEYS[2], KEYS[3]
local before = redis.call('HMGET', totals, 'items', 'bytes')
local items, bytes = tonumber(before[1] or 0), tonumber(before[2] or 0)
local answer, addedItems, addedBytes, at = { items, now }, 0, 0, 4
for k = 4, #KEYS do
  local key = KEYS[k]
  local id, count, size, limit, request, body, n = unpack(ARGV, at, at + 6)
  if redis.call('EXISTS', key) == 1 or items + addedItems + count > tonumber(ARGV[1]) then answer[#answer + 1] = 'queue'
  elseif bytes + addedBytes > 0 and bytes + addedBytes + size > tonumber(ARGV[2]) then answer[#answer + 1] = 'bytes'
  else
    local deadline = now + limit
    local entry = redis.call('XADD', work, '*', 'request', request, 'created', now, 'deaths', 0, 'body', body)
    redis.call('HSET', key, 'id', id, 'count', count, 'bytes', size, 'created', now, 'deadline', deadline, 'queue', ARGV[3], 'entry', entry,
      unpack(ARGV, at + 7, at + 6 + n))
    redis.call('ZADD', deadlines, deadline, id)
    addedItems, addedBytes = addedItems + count, addedBytes + size
    answer[#answer + 1] = ''
  end
  at = at + 7 + n
end
if addedItems > 0 then
  redis.call('HINCRBY', totals, 'items', addedItems)
  redis.call('HINCRBY', totals, 'bytes', addedBytes)
end
return answer
`;

/**
 * Stores outcomes. The first outcome of a prediction stands. Notifies the nodes whose clients wait, and a worker that still runs the prediction.
 * - `KEYS`: work, totals, deadlines, due; for each prediction `p:ID`
 * - Arguments: retention time, `worker` if this node has run the predictions, else `any`; for each prediction the number of further arguments, then names and
 *   values of fields
 */
export const finishScript = `${holder}${send}
local work, totals, deadlines, due = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local entries, ids, items, bytes, at = {}, {}, 0, 0, 3
-- A full Redis accepts this write, and then the other writes of the script.
redis.call('HDEL', totals, '-')
for k = 5, #KEYS do
  local key, n = KEYS[k], tonumber(ARGV[at])
  local entry, id, created, count, size, fronts, webhook =
    unpack(redis.call('HMGET', key, 'entry', 'id', 'created', 'count', 'bytes', 'fronts', 'webhook'))
  if entry then
    redis.call('HDEL', key, 'entry', 'queue', 'bytes', 'deadline', 'fronts', 'watched', 'worker', 'eventBytes', 'body', 'started', 'logs')
    redis.call('HSET', key, unpack(ARGV, at + 1, at + n))
    redis.call('PEXPIRE', key, ARGV[1])
    if webhook then redis.call('ZADD', due, 0, id .. ' ' .. created) end
    items, bytes = items + count, bytes + size
    entries[#entries + 1] = entry
    ids[#ids + 1] = id
    send(fronts, n == 2 and 'ended ' .. ARGV[at + 2] or 'read ' .. id)
    if ARGV[2] == 'any' then send(holderOf(entry) or '', 'lease ' .. id) end
  end
  at = at + n + 1
end
if #ids > 0 then
  redis.call('XACK', work, 'workers', unpack(entries))
  redis.call('XDEL', work, unpack(entries))
  redis.call('ZREM', deadlines, unpack(ids))
  redis.call('HINCRBY', totals, 'items', 0 - items)
  redis.call('HINCRBY', totals, 'bytes', 0 - bytes)
  if ARGV[2] == 'worker' then redis.call('HINCRBY', totals, 'ended', #ids) end
end
return 0
`;

/** Returns predictions to the queue: an orderly stop is no death. `KEYS`: work, `p:ID` of each prediction. Argument: this node. */
export const giveBackScript = `${holder}
local work = KEYS[1]
for k = 2, #KEYS do
  local key = KEYS[k]
  local entry = redis.call('HGET', key, 'entry')
  local worker, deliveries
  if entry then worker, deliveries = holderOf(entry) end
  if worker == ARGV[1] then
    local fields = redis.call('XRANGE', work, entry, entry)[1][2]
    fields[6] = fields[6] + deliveries - 1
    local again = redis.call('XADD', work, '*', unpack(fields))
    redis.call('XACK', work, 'workers', entry)
    redis.call('XDEL', work, entry)
    redis.call('HSET', key, 'entry', again)
    redis.call('HDEL', key, 'logs', 'started', 'worker')
  end
end
return 0
`;

/**
 * Renews leases, and stores the progress of predictions. Notifies waiting nodes of new events.
 * - `KEYS`: work; for each prediction `p:ID` and `e:ID`
 * - Arguments: this node; for each prediction the number of further arguments, then its progress, if any
 * - Progress: time of the start or "", new events or ""; then the logs, unless Redis has them
 * @returns for each prediction 0 if this node has lost it, 1 if no event stream watches it, else 2
 */
export const renewScript = `${clock}${holder}${send}
local answer, entries, at = {}, {}, 2
for k = 2, #KEYS, 2 do
  local key, events, n = KEYS[k], KEYS[k + 1], tonumber(ARGV[at])
  local entry, watched, id, fronts, deadline, size =
    unpack(redis.call('HMGET', key, 'entry', 'watched', 'id', 'fronts', 'deadline', 'eventBytes'))
  if not entry or holderOf(entry) ~= ARGV[1] then answer[k / 2] = 0
  else
    entries[#entries + 1] = entry
    answer[k / 2] = watched and 2 or 1
    if n > 0 then
      redis.call('HSET', key, 'worker', ARGV[1], 'started', ARGV[at + 1])
      if n > 2 then redis.call('HSET', key, 'logs', ARGV[at + 3]) end
    end
    local page = n > 0 and ARGV[at + 2] or ''
    if page ~= '' and watched then
      redis.call('XADD', events, '*', 'page', page)
      size = (size or 0) + #page
      while size > ${MAX_EVENT_BYTES} and redis.call('XLEN', events) > 1 do
        local oldest = redis.call('XRANGE', events, '-', '+', 'COUNT', 1)[1]
        size = size - #oldest[2][2]
        redis.call('XDEL', events, oldest[1])
      end
      redis.call('HSET', key, 'eventBytes', size)
      redis.call('PEXPIRE', events, math.max(0, deadline - now) + ${MARGIN_MS})
      send(fronts, 'events ' .. id)
    end
  end
  at = at + n + 1
end
if #entries > 0 then
  entries[#entries + 1] = 'JUSTID'
  redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], 0, unpack(entries))
end
return answer
`;

/**
 * Lets a node be notified of the end of an unfinished prediction, and perhaps of its events. Then notifies the worker. `KEYS`: `p:ID`. Arguments: node, `1` to
 * watch the prediction.
 */
export const followScript = `${send}
local entry, id, fronts, watched, worker = unpack(redis.call('HMGET', KEYS[1], 'entry', 'id', 'fronts', 'watched', 'worker'))
if not entry then return 0 end
if not string.find(fronts, ARGV[1], 1, true) then redis.call('HSET', KEYS[1], 'fronts', fronts .. ' ' .. ARGV[1]) end
if ARGV[2] == '1' and not watched then
  redis.call('HSET', KEYS[1], 'watched', '1')
  send(worker or '', 'lease ' .. id)
end
return 0
`;

/**
 * Reads the figures of a queue. Keeps the queue from expiring. Removes workers that have ended.
 * - `KEYS`: work, totals, deadlines
 * - Arguments: this node, `1` if it is a worker, milliseconds of silence after which a worker counts as ended
 * @returns the time, `1` if Redis is full; unfinished items, predictions `ended` by workers, unfinished predictions without and with a claim, milliseconds
 *   since the creation of the oldest one without a claim, number of workers; then ids of predictions whose time limit has passed
 */
export const pollScript = `${clock}
local work, totals, deadlines = KEYS[1], KEYS[2], KEYS[3]
-- Fails if this user must not notify nodes.
redis.call('PUBLISH', ARGV[1], '')
-- A full Redis refuses this write.
local refused = redis.pcall('HSET', totals, '-', '')
local isFull = type(refused) == 'table' and string.find(refused.err, 'OOM') and 1 or 0
redis.call('HDEL', totals, '-')
redis.pcall('XGROUP', 'CREATE', work, 'workers', '0', 'MKSTREAM')
-- No entry follows this id: the command reads nothing, and is a sign of life.
if ARGV[2] == '1' then redis.call('XREADGROUP', 'GROUP', 'workers', ARGV[1], 'STREAMS', work, '18446744073709551615-0') end
local waiting, taken, age, workers = redis.call('XLEN', work), 0, 0, 0
for _, key in ipairs({ work, totals }) do
  if waiting == 0 then redis.call('PEXPIRE', key, ${UNUSED_MS}) else redis.call('PERSIST', key) end
end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', work, 'workers')) do
  local name, pending, idle = consumer[2], consumer[4], consumer[6]
  waiting, taken = waiting - pending, taken + pending
  local hasLeft = name == ARGV[1] and ARGV[2] ~= '1'
  if not hasLeft and idle < tonumber(ARGV[3]) then workers = workers + 1
  elseif pending == 0 then redis.call('XGROUP', 'DELCONSUMER', work, 'workers', name) end
end
if waiting > 0 then
  local delivered = redis.call('XINFO', 'GROUPS', work)[1][8]
  local oldest = redis.call('XRANGE', work, '(' .. delivered, '+', 'COUNT', 1)[1]
  if oldest then age = now - string.match(oldest[1], '%d+') end
end
local total = redis.call('HMGET', totals, 'items', 'ended')
local late = redis.call('ZRANGEBYSCORE', deadlines, '-inf', now - ${GRACE_MS}, 'LIMIT', 0, ${MAX_LATE})
return { now, isFull, tonumber(total[1] or 0), tonumber(total[2] or 0), math.max(0, waiting), taken, math.max(0, age), workers, unpack(late) }
`;
