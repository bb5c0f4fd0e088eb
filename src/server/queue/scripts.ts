/** The scripts of the queue: what they do to predictions is done whole or not at all, whichever replica asks. Their keys and first arguments: script-prelude.ts. */
import { LuaScript } from "./redis-link.ts";
import { MAIL_MS, prelude } from "./script-prelude.ts";

/** A prediction that was in the hands of this many workers which ended may well be the cause. */
const MAX_DELIVERIES = 2;
/** Ends by time in one call. */
const MAX_EXPIRED = 100;
/** Of what ended together, forgotten in one call. */
const MAX_FORGOTTEN = 500;

const script = (text: string) => new LuaScript(prelude + text);

/**
 * max items, max bytes, usual time limit; of each: id, count, bytes, time limit, kind, place of a large body and front and digest, request,
 * webhook.
 * One with a digest is created only where there is none with its id.
 * @returns items that had not ended, the time now, then for each 0, or -1 for too many items, -2 for too many bytes, -3 for one that is there
 */
export const createScript = script(`
local h = redis.call('HMGET', totals, 'items', 'bytes')
local allItems, allBytes = tonumber(h[1] or 0), tonumber(h[2] or 0)
local maxItems, maxBytes, usual = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local answer, deadlines, hashes = { allItems, now }, {}, {}
for i = 6, #ARGV, 8 do
  local id, count, size_, limit = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3]
  local place, front, digest = string.match(ARGV[i + 5], '^(%S*) (%S*) (%S*)$')
  if digest ~= '' and not lives[id] then look({ id }) end
  if digest ~= '' and lives[id] then answer[#answer + 1] = -3
  elseif allItems + items + count > maxItems then answer[#answer + 1] = -1
  elseif allBytes + bytes > 0 and allBytes + bytes + size_ > maxBytes then answer[#answer + 1] = -2
  else
    local deadline = deadlines[limit]
    if not deadline then
      deadline = textOf(now + limit)
      deadlines[limit] = deadline
    end
    local meta = ARGV[i + 4] .. ' ' .. ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. ' ' .. limit .. ' ' .. place .. ' '
    local times = nowText .. ' ' .. deadline .. ' '
    local request = ARGV[i + 6]
    if place == 'redis' then
      redis.call('SET', base .. 'b:' .. id, request, 'PX', lifetimeOf(limit))
      request = ''
    end
    local head = id .. ' ' .. meta .. (front == '' and '0 ' or '1 ') .. times .. '0'
    local entry = redis.call('XADD', work, '*', 'head', head, 'request', request)
    -- Whoever still tells of an earlier one with this id has nothing to tell any more.
    if digest ~= '' then redis.call('ZREM', due, id) end
    if ARGV[i + 7] ~= '' then
      redis.call('HSET', hooks, id, nowText .. ' ' .. ARGV[i + 7])
      front = front == '' and '!' or front .. ',!'
    elseif digest ~= '' then redis.call('HDEL', hooks, id) end
    set(id, '~ ' .. meta .. times .. entry .. ' ' .. front)
    if tonumber(limit) < usual then redis.call('ZADD', soon, deadline, id) end
    if digest ~= '' then redis.call('SET', base .. 'd:' .. id, digest, 'PX', lifetimeOf(limit)) end
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
 * lease, entry after which to go on or "-", most entries: entries of workers that have given no sign for as long as a lease.
 * @returns predictions given up, where to go on or "", then entries that this worker has now
 */
export const reclaimScript = script(`
freeing()
local answer = { 0, '' }
local pending = redis.call('XPENDING', work, 'workers', 'IDLE', ARGV[3], ARGV[4], '+', ARGV[5])
if #pending == tonumber(ARGV[5]) then answer[2] = '(' .. pending[#pending][1] end
for _, each in ipairs(pending) do
  local entry, isMine = each[1], each[2] == me
  local found = redis.call('XRANGE', work, entry, entry)[1]
  local id, before
  if found then id, before = string.match(found[2][2], '^(%S+) .* (%d+)$') end
  if id then look({ id }) end
  if not id then done[#done + 1] = entry
  elseif not isOpen(id) or entryOf(id) ~= entry then discard(entry, found[2][2])
  elseif redis.call('HGET', base .. 't:' .. id, 'cancelled') then cancel(id)
  elseif not expire(id) then
    -- This node has it only if the answer was lost with which it was told so.
    local tries = each[4] + (isMine and 0 or 1)
    if before + tries > ${MAX_DELIVERIES} then
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

/** Of each: id, status, members, milliseconds since it was started or "", inputs done, logs, the node that put the members elsewhere or "". */
export const finishScript = script(`
freeing()
local ids = {}
for i = 3, #ARGV, 7 do ids[#ids + 1] = ARGV[i] end
look(ids)
for i = 3, #ARGV, 7 do
  local started = ARGV[i + 3] ~= '' and textOf(now - ARGV[i + 3]) or ''
  finish(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], started)
end
settle()
return 0
`);

/** Of each: id, milliseconds since it was started or "", inputs done, bytes of the logs that were told, more of them. */
export const progressScript = script(`
for i = 3, #ARGV, 5 do
  local id = ARGV[i]
  look({ id })
  if isOpen(id) and holderOf(entryOf(id)) == me then
    local _, limit = factsOf(id)
    local key = base .. 't:' .. id
    local h = redis.call('HMGET', key, 'started', 'logs')
    redis.call('HSET', key, 'done', ARGV[i + 2])
    if ARGV[i + 1] ~= '' and not h[1] then redis.call('HSET', key, 'started', textOf(now - ARGV[i + 1])) end
    if ARGV[i + 4] ~= '' then redis.call('HSET', key, 'logs', string.sub(h[2] or '', 1, ARGV[i + 3]) .. ARGV[i + 4]) end
    redis.call('PEXPIRE', key, lifetimeOf(limit))
  end
end
return 0
`);

/** Ids. @returns two lists of ids: those that this node no longer has, and those that are cancelled */
export const renewScript = script(`
local lost, cancelled, entries, ids = {}, {}, {}, { unpack(ARGV, 3) }
look(ids)
for _, id in ipairs(ids) do
  local entry = isOpen(id) and entryOf(id)
  if not entry or holderOf(entry) ~= me then lost[#lost + 1] = id
  else
    entries[#entries + 1] = entry
    if redis.call('HGET', base .. 't:' .. id, 'cancelled') then cancelled[#cancelled + 1] = id end
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

/** Ids of all that this node has. */
export const ownScript = script(`
local ids = {}
for _, each in ipairs(redis.call('XPENDING', work, 'workers', '-', '+', 1000, me)) do
  local found = redis.call('XRANGE', work, each[1], each[1])[1]
  if found then ids[#ids + 1] = string.match(found[2][2], '^%S+') end
end
return ids
`);

/** Of each: id, whether it had begun: only that counts as a delivery. Others find them at the end of the queue. */
export const giveBackScript = script(`
freeing()
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  look({ id })
  local entry = isOpen(id) and entryOf(id)
  local holder, tries
  if entry then holder, tries = holderOf(entry) end
  if holder == me then
    if redis.call('HGET', base .. 't:' .. id, 'cancelled') then cancel(id)
    else
      local fields = redis.call('XRANGE', work, entry, entry)[1][2]
      local head, before = string.match(fields[2], '^(.* )(%d+)$')
      local deliveries = before + tries - (ARGV[i + 1] == '1' and 0 or 1)
      local again = redis.call('XADD', work, '*', 'head', head .. textOf(deliveries), 'request', fields[4])
      local meta, deadline, fronts = string.match(lives[id], '^(~ %S+ %S+ %S+ %S+ %S* %S+ (%S+) )%S+ (.*)$')
      set(id, meta .. again .. ' ' .. fronts)
      redis.call('ZADD', soon, deadline, id)
      done[#done + 1] = entry
      redis.call('DEL', base .. 't:' .. id)
    end
  end
end
settle()
return 0
`);

/** Forgets a worker that has nothing more. */
export const leaveScript = script(`
redis.call('ZREM', signs, me)
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', work, 'workers')) do
  if consumer[2] == me and consumer[4] == 0 then redis.call('XGROUP', 'DELCONSUMER', work, 'workers', me) end
end
return 0
`);

/** "awaited" if this node waits for the ends from now on, "late" if it was given them and their time was up; ids. @returns of each its record, or the size of a large one */
export const readScript = script(`
local answer, ids = {}, { unpack(ARGV, 4) }
look(ids)
for _, id in ipairs(ids) do
  expire(id, ARGV[3] == 'late')
  if ARGV[3] == 'awaited' then attend(id, me) end
  answer[#answer + 1] = recordOrSizeOf(id)
end
settle()
return answer
`);

/** Id. @returns its record, however large */
export const recordScript = script(`
look({ ARGV[3] })
return recordOf(ARGV[3])
`);

/** Cancels one of a kind, or tells the worker that has it to. Gives whether the end is that worker's to tell. */
const stopping = `
local function stop(kind_, id, isForced)
  if not isOpen(id) then return false end
  local kind, limit, _, entry = factsOf(id)
  if kind ~= kind_ then return false end
  local holder = holderOf(entry)
  if isForced or not holder then
    cancel(id)
    return false
  end
  local key = base .. 't:' .. id
  redis.call('HSET', key, 'cancelled', 1)
  redis.call('PEXPIRE', key, lifetimeOf(limit))
  mail(holder, 'cancel', id)
  return true
end
`;

/**
 * kind, id, whether to wait no longer for the worker that has it, which knows what outputs there are: else this node waits for the end.
 * @returns its record, which may not have ended, or the size of a large one
 */
export const cancelScript = script(`${stopping}
freeing()
local id = ARGV[4]
look({ id })
if stop(ARGV[3], id, ARGV[5] == '1') then attend(id, me) end
settle()
return recordOrSizeOf(id)
`);

/** Of each: kind, id. Nobody waits for their ends. */
export const forsakeScript = script(`${stopping}
freeing()
local ids = {}
for i = 4, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
look(ids)
for i = 3, #ARGV, 2 do stop(ARGV[i], ARGV[i + 1], false) end
settle()
return 0
`);

/**
 * Last mail of this node, lease, longest time limit, whether this node runs predictions: ends what is late, forgets workers that are gone and mail that
 * was read.
 * @returns the time now, items, bytes, items ended so far, entries that wait, entries that workers have, age of the oldest that waits, workers,
 * ended predictions that are kept, their bytes
 */
export const tendScript = script(`
freeing()
local late = redis.call('ZRANGEBYSCORE', soon, '-inf', now, 'LIMIT', 0, ${MAX_EXPIRED})
look(late)
for _, id in ipairs(late) do
  if isOpen(id) then expire(id) else redis.call('ZREM', soon, id) end
end
local after = '-'
for _ = 1, ${MAX_EXPIRED} do
  local found = redis.call('XRANGE', work, after, '+', 'COUNT', 1)[1]
  local id, deadline
  if found then id, deadline = string.match(found[2][2], '^(%S+) .* (%d+) %d+$') end
  if not id or tonumber(deadline) > now then break end
  if not lives[id] then look({ id }) end
  if isOpen(id) then expire(id) else discard(found[1], found[2][2]) end
  after = '(' .. found[1]
end
settle(${MAX_FORGOTTEN})
redis.call('XTRIM', base .. 'mail:' .. me, 'MINID', ARGV[3])
local total = redis.call('HMGET', totals, 'items', 'bytes', 'ended', 'kept', 'keptBytes')
for i = 1, 5 do total[i] = tonumber(total[i] or 0) end
local waiting, taken, age, delivered = redis.call('XLEN', work), 0, 0, '0-0'
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
-- A read that waits is a sign for Redis from 7.2 on only.
if ARGV[6] == '1' then redis.call('ZADD', signs, nowText, me) end
redis.call('ZREMRANGEBYSCORE', signs, '-inf', textOf(now - math.max(5000, tonumber(ARGV[4]))))
local workers = redis.call('ZCARD', signs)
for _, key in ipairs({ work, soon, kept, totals, hooks, due, signs }) do redis.call('PEXPIRE', key, lifetimeOf(ARGV[5])) end
return { now, total[1], total[2], total[3], waiting, taken, age, workers, total[4], total[5] }
`);

/**
 * For how long this node tells those that it takes, how many it takes at most, how many follow that were told; these, and those that it goes on
 * telling: of each its id, and when its prediction was created.
 * @returns how many there are, then id, the same time and webhook of each that this node is to tell now
 */
export const webhookScript = script(`
freeing()
local until_, last = textOf(now + ARGV[3]), 5 + 2 * ARGV[5]
for i = 6, #ARGV, 2 do
  local id = ARGV[i]
  local webhook = redis.call('HGET', hooks, id)
  -- Another may have taken its id.
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

/**
 * Ids of predictions: removes what another program wrote in the keys of the queue and of these predictions. Predictions in a removed key are lost.
 * @returns of each removed value the key, a blank, and the fault
 */
export const mendScript = script(`
local removed = {}
local function remove(key, fault) removed[#removed + 1] = key .. ' ' .. fault end
local function check(key, expected)
  local found = redis.call('TYPE', key).ok
  if found == 'none' or found == expected then return end
  redis.call('DEL', key)
  remove(key, 'was a ' .. found .. ', expected a ' .. expected)
end
local function isNumber(text) return string.match(text, '^%-?%d+$') end
local types = { work = 'stream', soon = 'zset', kept = 'list', totals = 'hash', hooks = 'hash', due = 'zset', signs = 'zset' }
for name, expected in pairs(types) do check(base .. name, expected) end
check(base .. 'mail:' .. me, 'stream')
for i = 3, #ARGV do
  local id = ARGV[i]
  local hash = hashOf(id)
  check(hash, 'hash')
  check(base .. 'b:' .. id, 'string')
  check(base .. 'd:' .. id, 'string')
  check(base .. 't:' .. id, 'hash')
  local text = redis.call('HGET', hash, id)
  if text and not isWritten(id, text) then
    redis.call('HDEL', hash, id)
    remove(hash, 'held no record of ' .. id)
  end
  local done, started = unpack(redis.call('HMGET', base .. 't:' .. id, 'done', 'started'))
  if not isNumber(done or '0') or not isNumber(started or '0') then
    redis.call('DEL', base .. 't:' .. id)
    remove(base .. 't:' .. id, 'held no numbers')
  end
end
local batch = redis.call('LINDEX', kept, 0)
while batch and not string.match(batch, '^%d+ %d+ %d+ [01] ') do
  redis.call('LPOP', kept)
  remove(kept, 'held no ended predictions')
  batch = redis.call('LINDEX', kept, 0)
end
local fields, isForeign = redis.call('HGETALL', totals), false
for i = 2, #fields, 2 do isForeign = isForeign or not isNumber(fields[i]) end
if isForeign then
  redis.call('DEL', totals)
  remove(totals, 'held no numbers')
end
if redis.call('EXISTS', totals) == 0 then
  for _, entry in ipairs(redis.call('XRANGE', work, '-', '+')) do
    local count, size_ = string.match(entry[2][2], '^%S+ %S+ (%d+) (%d+)')
    items = items + (count or 0)
    bytes = bytes + (size_ or 0)
  end
  local ends, endBytes = 0, 0
  for _, each in ipairs(redis.call('LRANGE', kept, 0, -1)) do
    local number, endSize = string.match(each, '^%d+ (%d+) (%d+)')
    ends = ends + (number or 0)
    endBytes = endBytes + (endSize or 0)
  end
  redis.call('HSET', totals, 'items', textOf(items), 'bytes', textOf(bytes), 'kept', textOf(ends), 'keptBytes', textOf(endBytes))
end
return removed
`);
