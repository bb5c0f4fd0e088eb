/** Redis scripts of the queue. Each script runs atomically. script-prelude.ts describes the keys and the first two arguments. */
import { MAIL_MS, queueScript } from "./script-prelude.ts";

/** When this many replicas have ended while they ran a prediction, it fails, because it may be the cause. */
const MAX_DELIVERIES = 2;
/** Maximum predictions that one call ends because their time limit has passed. */
const MAX_EXPIRED = 100;
/** Maximum batches of ended predictions that one call evicts. */
const MAX_FORGOTTEN = 500;

/**
 * Adds predictions to the queue. Arguments: maximum items, maximum bytes, usual time limit; for each prediction id, count, bytes, time limit, kind,
 * flags (1 for a large body, the waiting replica, digest), request, webhook. A digest means that a client chose the id, which must be new.
 * @returns number of unfinished inputs, the time; for each prediction 0 if it was added, -1 for too many items, -2 for too many bytes, or -3 if the
 * id exists
 */
export const createScript = queueScript(`
local h = redis.call('HMGET', totals, 'items', 'bytes')
local allItems, allBytes = tonumber(h[1] or 0), tonumber(h[2] or 0)
local maxItems, maxBytes, usual = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local answer, deadlines, hashes, ids = { allItems, now }, {}, {}, {}
for i = 6, #ARGV, 8 do
  if string.match(ARGV[i + 5], '%S*$') ~= '' then ids[#ids + 1] = ARGV[i] end
end
load(ids)
for i = 6, #ARGV, 8 do
  local id, count, size_, limit = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3]
  local isLarge, front, digest = string.match(ARGV[i + 5], '^(%S*) (%S*) (%S*)$')
  if digest ~= '' and known[id] then answer[#answer + 1] = -3
  elseif allItems + items + count > maxItems then answer[#answer + 1] = -1
  elseif allBytes + bytes > 0 and allBytes + bytes + size_ > maxBytes then answer[#answer + 1] = -2
  else
    local deadline = deadlines[limit]
    if not deadline then
      deadline = textOf(now + limit)
      deadlines[limit] = deadline
    end
    local meta = ARGV[i + 4] .. ' ' .. ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. ' ' .. limit .. ' ' .. isLarge .. ' '
    local times = nowText .. ' ' .. deadline .. ' '
    local request = ARGV[i + 6]
    if isLarge == '1' then
      redis.call('SET', base .. 'b:' .. id, request, 'PX', lifetimeOf(limit))
      request = ''
    end
    local head = id .. ' ' .. meta .. (front == '' and '0 ' or '1 ') .. times .. '0'
    local entry = redis.call('XADD', work, '*', 'head', head, 'request', request)
    -- A webhook of an earlier prediction with this id is obsolete.
    if digest ~= '' then redis.call('ZREM', due, id) end
    if ARGV[i + 7] ~= '' then
      redis.call('HSET', hooks, id, nowText .. ' ' .. ARGV[i + 7])
      front = front == '' and '!' or front .. ',!'
    elseif digest ~= '' then redis.call('HDEL', hooks, id) end
    set(id, '~ ' .. meta .. times .. entry .. ' ' .. digest .. ' ' .. front)
    if tonumber(limit) < usual then redis.call('ZADD', soon, deadline, id) end
    hashes[hashOf(id)] = limit
    items = items + count
    bytes = bytes + size_
    answer[#answer + 1] = 0
  end
end
settle()
for hash, limit in pairs(hashes) do
  local longest = math.max(limit, usual) + retainMs
  if redis.call('PTTL', hash) < longest then redis.call('PEXPIRE', hash, lifetimeOf(longest - retainMs)) end
end
return answer
`);

/**
 * Claims predictions whose leases have ended. Arguments: lease in milliseconds, start of the page or "-", page size.
 * @returns number of predictions that failed because their workers ended, start of the next page or "", claimed entries
 */
export const reclaimScript = queueScript(`
freeing()
local answer = { 0, '' }
local pending = redis.call('XPENDING', work, 'workers', 'IDLE', ARGV[3], ARGV[4], '+', ARGV[5])
if #pending == tonumber(ARGV[5]) then answer[2] = '(' .. pending[#pending][1] end
for _, each in ipairs(pending) do
  local entry, isMine = each[1], each[2] == me
  local found = redis.call('XRANGE', work, entry, entry)[1]
  local id = found and string.match(found[2][2], '^%S+')
  if id then load({ id }) end
  if not id then acked[#acked + 1] = entry
  elseif not isOpen(id) or entryOf(id) ~= entry then discard(entry, found[2][2])
  elseif isCancelled(id) then cancel(id)
  elseif not expire(id) then
    -- An entry of this node is here because the answer of an earlier claim was lost.
    local tries = each[4] + (isMine and 0 or 1)
    if deliveriesOf(found[2][2]) + tries > ${MAX_DELIVERIES} then
      finish(id, 'failed',
        '"error_message":"Given up: ${MAX_DELIVERIES} replicas ended, or were cut off, while they had this; it is not run again"')
      answer[1] = answer[1] + 1
    else
      redis.call('XCLAIM', work, 'workers', me, 0, entry, 'RETRYCOUNT', tries, 'JUSTID')
      if not isMine then redis.call('DEL', base .. 't:' .. id) end
      answer[#answer + 1] = found
    end
  end
end
settle()
return answer
`);

/**
 * Stores outcomes. Arguments for each prediction: id, status, JSON members, milliseconds since the start or "", inputs done, logs, model.
 */
export const finishScript = queueScript(`
freeing()
local ids = {}
for i = 3, #ARGV, 7 do ids[#ids + 1] = ARGV[i] end
load(ids)
for i = 3, #ARGV, 7 do
  local started = ARGV[i + 3] ~= '' and textOf(now - ARGV[i + 3]) or ''
  finish(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 4], ARGV[i + 5], started, ARGV[i + 6])
end
settle()
return 0
`);

/**
 * Stores the progress of predictions that this replica runs. Arguments for each prediction: id, milliseconds since the start or "", inputs done,
 * bytes of the logs that Redis has, the logs after them.
 */
export const progressScript = queueScript(`
for i = 3, #ARGV, 5 do
  local id = ARGV[i]
  load({ id })
  if isOpen(id) and holderOf(entryOf(id)) == me then
    local _, limit = factsOf(id)
    local key = base .. 't:' .. id
    local _, logs, started = progressOf(id)
    local done = ARGV[i + 2]
    if ARGV[i + 1] ~= '' and started == '' then started = textOf(now - ARGV[i + 1]) end
    if ARGV[i + 4] ~= '' then
      logs = string.sub(logs, 1, ARGV[i + 3]) .. ARGV[i + 4]
      redis.call('HSET', key, 'logs', logs)
    end
    redis.call('HSET', key, 'done', done, 'started', started)
    redis.call('PEXPIRE', key, lifetimeOf(limit))
  end
end
return 0
`);

/** Renews the leases of predictions. Arguments: ids. @returns ids that another replica runs or that have ended, and ids that are canceled */
export const renewScript = queueScript(`
local lost, cancelled, entries, ids = {}, {}, {}, { unpack(ARGV, 3) }
load(ids)
for _, id in ipairs(ids) do
  local entry = isOpen(id) and entryOf(id)
  if not entry or holderOf(entry) ~= me then lost[#lost + 1] = id
  else
    entries[#entries + 1] = entry
    if isCancelled(id) then cancelled[#cancelled + 1] = id end
  end
end
if #entries > 0 then
  local claim = { work, 'workers', me, 0 }
  for _, entry in ipairs(entries) do claim[#claim + 1] = entry end
  claim[#claim + 1] = 'JUSTID'
  redis.pcall('XCLAIM', unpack(claim))
end
return { lost, cancelled }
`);

/** Returns predictions to the queue: an orderly stop is no attempt. Arguments: ids. */
export const giveBackScript = queueScript(`
freeing()
local ids = { unpack(ARGV, 3) }
load(ids)
for _, id in ipairs(ids) do
  local entry = isOpen(id) and entryOf(id)
  local holder, tries
  if entry then holder, tries = holderOf(entry) end
  if holder == me then
    if isCancelled(id) then cancel(id)
    else
      local fields = redis.call('XRANGE', work, entry, entry)[1][2]
      local deliveries, head = deliveriesOf(fields[2])
      local again = redis.call('XADD', work, '*', 'head', head .. textOf(deliveries + tries - 1), 'request', fields[4])
      local meta, deadline, rest = string.match(known[id], '^(~ %S+ %S+ %S+ %S+ %S* %S+ (%S+) )%S+ (.*)$')
      set(id, meta .. again .. ' ' .. rest)
      redis.call('ZADD', soon, deadline, id)
      acked[#acked + 1] = entry
      redis.call('DEL', base .. 't:' .. id)
    end
  end
end
settle()
return 0
`);

/** Removes this replica from the workers, and from the consumers of the stream if it has no claim. */
export const leaveScript = queueScript(`
redis.call('ZREM', signs, me)
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', work, 'workers')) do
  if consumer[2] == me and consumer[4] == 0 then redis.call('XGROUP', 'DELCONSUMER', work, 'workers', me) end
end
return 0
`);

/**
 * Reads predictions. Arguments: "awaited" to notify this replica of their ends, "expired" if this replica has claimed them but they are too late to
 * run, or ""; ids.
 * @returns for each id the record, or the size of a record that is too large for the answer
 */
export const readScript = queueScript(`
local answer, ids = {}, { unpack(ARGV, 4) }
load(ids)
for _, id in ipairs(ids) do
  expire(id, ARGV[3] == 'expired')
  if ARGV[3] == 'awaited' then subscribe(id, me) end
  answer[#answer + 1] = recordOrSizeOf(id)
end
settle()
return answer
`);

/** Reads one prediction of any size. Argument: id. @returns the record */
export const recordScript = queueScript(`
load({ ARGV[3] })
return recordOf(ARGV[3])
`);

/** Lua function that cancels a prediction, or notifies the worker that runs it. Returns true if the worker will end the prediction. */
const cancelOrNotify = `
local function cancelOrNotify(kind_, id, isForced)
  if not isOpen(id) then return false end
  local kind, limit, _, entry = factsOf(id)
  if kind ~= kind_ then return false end
  local holder = holderOf(entry)
  if isForced or not holder then
    cancel(id)
    return false
  end
  local key = base .. 't:' .. id
  redis.call('HSET', key, 'cancelled', '1')
  redis.call('PEXPIRE', key, lifetimeOf(limit))
  mail(holder, 'cancel', id)
  return true
end
`;

/**
 * Cancels a prediction. A worker that runs it ends it with the outputs so far, and this replica is notified. With isForced, the script ends it at
 * once. Arguments: kind, id, isForced.
 * @returns the record, which may be unfinished, or its size if it is too large for the answer
 */
export const cancelScript = queueScript(`${cancelOrNotify}
freeing()
local id = ARGV[4]
load({ id })
if cancelOrNotify(ARGV[3], id, ARGV[5] == '1') then subscribe(id, me) end
settle()
return recordOrSizeOf(id)
`);

/** Cancels predictions whose ids no client has. Arguments for each prediction: kind, id. */
export const cancelAllScript = queueScript(`${cancelOrNotify}
freeing()
local ids = {}
for i = 4, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
load(ids)
for i = 3, #ARGV, 2 do cancelOrNotify(ARGV[i], ARGV[i + 1], false) end
settle()
return 0
`);

/**
 * Ends predictions whose time limit has passed. Removes ended workers, evicts ended predictions, and deletes read notifications. Arguments: last
 * notification that this replica has read, lease, longest time limit, whether this replica is a worker.
 * @returns time, unfinished items, their bytes, predictions ended by workers, unclaimed entries, claimed entries, age of the oldest unclaimed entry,
 * workers, retained predictions, their bytes, whether the memory of Redis is full
 */
export const tendScript = queueScript(`
-- Writes nothing. Redis refuses the command while its memory is full, and before the first write of a script.
local probed = redis.pcall('SETRANGE', base .. 'probe', 0, '')
local isFull = type(probed) == 'table' and string.find(probed.err, 'OOM', 1, true)
freeing()
local expired = redis.call('ZRANGEBYSCORE', soon, '-inf', now, 'LIMIT', 0, ${MAX_EXPIRED})
load(expired)
for _, id in ipairs(expired) do
  if isOpen(id) then expire(id) else redis.call('ZREM', soon, id) end
end
local after = '-'
for _ = 1, ${MAX_EXPIRED} do
  local found = redis.call('XRANGE', work, after, '+', 'COUNT', 1)[1]
  if not found then break end
  local id = string.match(found[2][2], '^%S+')
  if not known[id] then load({ id }) end
  if not isOpen(id) then discard(found[1], found[2][2])
  elseif not isDue(id) then break
  else expire(id) end
  after = '(' .. found[1]
end
settle(${MAX_FORGOTTEN})
redis.call('XTRIM', base .. 'mail:' .. me, 'MINID', ARGV[3])
local total = redis.call('HMGET', totals, 'items', 'bytes', 'ended', 'kept', 'keptBytes')
for i = 1, 5 do total[i] = tonumber(total[i] or 0) end
local waiting, taken, age, delivered = redis.call('XLEN', work), 0, 0, '0-0'
-- Without entries, no prediction is unfinished. A script that failed after some of its writes leaves wrong totals.
if waiting == 0 and (total[1] ~= 0 or total[2] ~= 0) then
  total[1], total[2] = 0, 0
  redis.call('HSET', totals, 'items', 0, 'bytes', 0)
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
    if pending == 0 and idle > math.max(${MAIL_MS}, tonumber(ARGV[4])) then redis.call('XGROUP', 'DELCONSUMER', work, 'workers', name) end
  end
end
local oldest = redis.call('XRANGE', work, '(' .. delivered, '+', 'COUNT', 1)[1]
if oldest then age = math.max(0, now - string.match(oldest[1], '^%d+')) end
-- XINFO shows a blocked reader as active only since Redis 7.2.
if ARGV[6] == '1' then redis.call('ZADD', signs, nowText, me) end
redis.call('ZREMRANGEBYSCORE', signs, '-inf', textOf(now - math.max(5000, tonumber(ARGV[4]))))
local workers = redis.call('ZCARD', signs)
for _, key in ipairs({ work, soon, kept, totals, hooks, due, signs }) do redis.call('PEXPIRE', key, lifetimeOf(ARGV[5])) end
return { now, total[1], total[2], total[3], waiting, taken, age, workers, total[4], total[5], isFull and 1 or 0 }
`);

/**
 * Deletes delivered webhooks, renews leases, and claims webhooks without a lease. Arguments: lease in milliseconds, maximum webhooks to claim, number
 * of delivered webhooks; id and creation time of each delivered webhook, then of each webhook to renew.
 * @returns number of undelivered webhooks, then id, creation time and webhook of each claimed webhook
 */
export const webhookScript = queueScript(`
freeing()
local until_, last = textOf(now + ARGV[3]), 5 + 2 * ARGV[5]
for i = 6, #ARGV, 2 do
  local id = ARGV[i]
  local webhook = redis.call('HGET', hooks, id)
  -- A later prediction may have the same id.
  if webhook and string.match(webhook, '^%S+') == ARGV[i + 1] then
    if i > last then redis.call('ZADD', due, 'XX', until_, id)
    else
      redis.call('ZREM', due, id)
      redis.call('HDEL', hooks, id)
    end
  end
end
local answer = { redis.call('HLEN', hooks) }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, ARGV[4])) do
  local webhook = redis.call('HGET', hooks, id)
  local created, text = string.match(webhook or '', '^(%d+) (.*)$')
  if created then
    redis.call('ZADD', due, until_, id)
    answer[#answer + 1] = id
    answer[#answer + 1] = created
    answer[#answer + 1] = text
  else
    redis.call('ZREM', due, id)
  end
end
return answer
`);
