/**
 * What the scripts of the queue have in common. Keys, all in one slot of a Cluster:
 *
 * - `work`: a stream with an entry for each prediction that has not ended, with what a worker has to know of it: `head` (id, kind, count, bytes, time
 *   limit, place of a large body, whether it is waited for, when it was created, deadline, deliveries before this entry), `request` (origin, a line
 *   break, body). The group `workers` reads it, and knows which worker has an entry
 * - `p:SECOND`: a hash of predictions by id, those whose ids were made in one second. Of one that has not ended: `~`, kind, count, bytes, time limit,
 *   place of a large body, when it was created, deadline, entry, nodes that wait for the end, with `!` among them where a webhook does. Else its
 *   record (`recordOf` in replies.ts reads it)
 * - `b:ID`: a large body
 * - `d:ID`: of one whose client chose the id, the digest of its body
 * - `t:ID`: a hash, what a worker told of one that runs for long: `done`, `logs`, `started`; and `cancelled`
 * - `soon`: a sorted set by deadline of what has not ended and is not in the order of its deadline in `work`
 * - `kept`: a list of what ended together: when, how many, bytes, whether one is long, ids
 * - `totals`: `items` and `bytes` of all that has not ended, items `ended` so far, ended predictions `kept`, `keptBytes`
 * - `hooks`: a hash of webhooks by the id of their prediction, each behind when that was created, until they were told its end
 * - `due`: a sorted set of those that have ended, by when another node is to tell them than the one that does
 * - `signs`: a sorted set of the nodes that run predictions, by when they last said so
 * - `mail:NODE`: a stream that a node reads: ends that it waits for, cancelled predictions that it has
 *
 * What a script costs is its commands, and keys, members and texts that it makes: there are few for each prediction. Times are those of Redis, in
 * milliseconds. The first two arguments of each script are for how long ended ones are kept, how many and how many bytes, and for how long it is left to
 * this node to tell the webhooks of what it ends; and the node that asks.
 */

import { LARGE_VALUE_BYTES } from "./large-values.ts";

/** Names the layout of all that is written: with another one comes another number, so that what replicas of an older sconce keep is left to them. */
export const KEY_PREFIX = "sconce:4:";
/** An end that is longer is fetched by those that wait for it. */
const MAX_MAIL_BYTES = 65_536;
/** Longest that mail for a node that is gone stays, and how much. */
export const MAIL_MS = 60_000;
const MAX_MAILS = 10_000;
/** Once its time is up the worker ends it, with what it has of the outputs; after so long others do. */
const GRACE_MS = 1500;
/** Of keys that nobody looks after any more, beyond the longest time for which they can be needed. */
const MARGIN_MS = 60_000;
/** Of an ended prediction beside its record. */
const KEPT_BYTES = 704;
/** An end that those who wait for it fetch is kept for so long, whatever the limits are. */
const FETCH_MS = 2000;
/** As many ended ones as there is room for. */
export const NO_LIMIT = 1e15;

export const prelude = `
local base, me = string.sub(KEYS[1], 1, -5), ARGV[2]
local work, soon, kept, totals, hooks, due = KEYS[1], base .. 'soon', base .. 'kept', base .. 'totals', base .. 'hooks', base .. 'due'
local signs = base .. 'signs'
local retainMs, maxKept, maxKeptBytes, tellMs = string.match(ARGV[1], '(%S+) (%S+) (%S+) (%S+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function textOf(number) return string.format('%.0f', number) end
local nowText = textOf(now)

local items, bytes, ended, size, hasLong = 0, 0, 0, 0, 0
local lives, done, closed, gone, fields, mails, told = {}, {}, {}, {}, {}, {}, {}

-- A write that frees memory, or does nothing: after it Redis takes what follows even when its memory is full.
local function freeing() redis.call('HDEL', totals, '-') end

local function hashOf(id) return base .. 'p:' .. string.sub(id, 2, 5) end

-- Lists of ids by the hash that they are in.
local function hashesOf(ids)
  local hashes = {}
  for _, id in ipairs(ids) do
    local hash = hashOf(id)
    local list = hashes[hash]
    if list then list[#list + 1] = id else hashes[hash] = { id } end
  end
  return hashes
end

-- Whether a text is one that the scripts write for a prediction.
local function isWritten(id, text)
  if string.byte(text) == 126 then return string.match(text, '^~ %l+ %d+ %d+ [%d.]+ %S* %d+ %d+ %d+%-%d+ ') ~= nil end
  local own, members = string.match(text, '^(%S+) %l+ %d+ %d+ [%d.]+ %d+ %d+ %d* %d+ %l+ %S* (%d+)\\n')
  return own == id and members ~= nil
end

-- Looks up what there is of predictions, for all that follows. The text of another program ends the script; mendScript removes it.
local function look(ids)
  for hash, list in pairs(hashesOf(ids)) do
    local found = redis.call('HMGET', hash, unpack(list))
    for i, id in ipairs(list) do
      if found[i] and not isWritten(id, found[i]) then error('FOREIGN ' .. id .. ' ') end
      lives[id] = found[i]
    end
  end
end

local function set(id, text)
  lives[id] = text
  local hash = hashOf(id)
  local list = fields[hash]
  if not list then
    list = {}
    fields[hash] = list
  end
  list[#list + 1] = id
  list[#list + 1] = text
end

-- Whether it is there and has not ended.
local function isOpen(id)
  local found = lives[id]
  return found and string.byte(found) == 126
end

-- Of one that has not ended: kind, time limit, deadline, entry.
local function factsOf(id)
  return string.match(lives[id], '^~ (%S+) %S+ %S+ (%S+) %S* %S+ (%S+) (%S+)')
end

local function entryOf(id)
  local _, _, _, entry = factsOf(id)
  return entry
end

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

-- Items done, logs and start of a running prediction, as its worker reported them.
local function progressOf(id)
  local done, logs, started = unpack(redis.call('HMGET', base .. 't:' .. id, 'done', 'logs', 'started'))
  if not string.match(done or '0', '^%d+$') or not string.match(started or '0', '^%d+$') then error('FOREIGN ' .. id .. ' ') end
  return done or 0, logs or '', started or ''
end

-- The first outcome stands. What is not given is what the worker told last.
local function finish(id, status, members, inputs, logs, large, started)
  if not isOpen(id) then return end
  local meta, count, size_, place, created, entry, fronts =
    string.match(lives[id], '^~ (%S+ (%S+) (%S+) %S+) (%S*) (%S+) %S+ (%S+) (.*)$')
  local isOwn = inputs
  if not inputs then
    inputs, logs, started = progressOf(id)
    large = ''
  end
  local record = id .. ' ' .. meta .. ' ' .. created .. ' ' .. inputs .. ' ' .. started .. ' ' .. nowText .. ' ' .. status .. ' ' .. large .. ' '
    .. #logs .. '\\n' .. logs .. members
  set(id, record)
  size = size + #record + ${KEPT_BYTES}
  done[#done + 1] = entry
  closed[#closed + 1] = id
  gone[#gone + 1] = base .. 't:' .. id
  if place == 'redis' then gone[#gone + 1] = base .. 'b:' .. id end
  items = items - count
  bytes = bytes - size_
  ended = ended + count
  local isLong = #record > ${MAX_MAIL_BYTES}
  if isLong then hasLong = 1 end
  for node in string.gmatch(fronts, '[^,]+') do
    if node == '!' then
      told[#told + 1] = textOf(now + (isOwn and tellMs or 0))
      told[#told + 1] = id
    elseif isLong then mail(node, 'long', id) else mail(node, 'end', record) end
  end
end

-- Deletes an entry that is not that of an open prediction. After a time without replicas the hash of its prediction may have expired before it: what the
-- prediction counted goes with the entry then.
local function discard(entry, head)
  done[#done + 1] = entry
  local id, count, size_ = string.match(head, '^(%S+) %S+ (%S+) (%S+)')
  if lives[id] then return end
  items = items - count
  bytes = bytes - size_
  redis.call('HDEL', hooks, id)
end

-- Forgets what ended first, as long as it is older than it has to be or beyond the limits. Gives what is left: how many, and how many bytes.
local function forget(count, allBytes, most)
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

-- Does for all what was put off.
local function settle(most)
  for hash, list in pairs(fields) do redis.call('HSET', hash, unpack(list)) end
  if #closed > 0 then
    redis.call('XACK', work, 'workers', unpack(done))
    redis.call('XDEL', work, unpack(done))
    redis.call('ZREM', soon, unpack(closed))
    redis.call('DEL', unpack(gone))
    redis.call('RPUSH', kept, nowText .. ' ' .. #closed .. ' ' .. size .. ' ' .. hasLong .. ' ' .. table.concat(closed, ' '))
  elseif #done > 0 then
    redis.call('XACK', work, 'workers', unpack(done))
    redis.call('XDEL', work, unpack(done))
  end
  if items ~= 0 or #closed > 0 or most then
    local h = redis.call('HMGET', totals, 'items', 'bytes', 'ended', 'kept', 'keptBytes')
    for i = 1, 5 do h[i] = tonumber(h[i] or 0) end
    h[4], h[5] = h[4] + #closed, h[5] + size
    if most or #closed > 0 then h[4], h[5] = forget(h[4], h[5], most or 2) end
    redis.call('HSET', totals, 'items', textOf(h[1] + items), 'bytes', textOf(h[2] + bytes), 'ended', textOf(h[3] + ended),
      'kept', textOf(h[4]), 'keptBytes', textOf(h[5]))
  end
  if #told > 0 then redis.call('ZADD', due, unpack(told)) end
  for node, letter in pairs(mails) do
    local key = base .. 'mail:' .. node
    redis.call('XADD', key, 'MAXLEN', '~', ${MAX_MAILS}, '*', unpack(letter))
    redis.call('PEXPIRE', key, ${MAIL_MS})
  end
end

-- Ends one whose time is up; the node that has it is given a little longer, unless it says itself that it does not run it.
local function expire(id, isLeft)
  if not isOpen(id) then return false end
  local _, limit, deadline, entry = factsOf(id)
  if tonumber(deadline) > now then return false end
  if not isLeft and deadline + ${GRACE_MS} > now and holderOf(entry) then return false end
  freeing()
  local seconds = math.floor(limit / 10 + 0.5) / 100
  finish(id, 'failed', '"error_message":"Timed out after ' .. seconds .. ' s"')
  return true
end

local function cancel(id) finish(id, 'failed', '"error_message":"Canceled"') end

-- The end is to be told to a node as well. It takes a few bytes, until what was accepted has ended.
local function attend(id, node)
  if not isOpen(id) or string.find(string.match(lives[id], '%S*$'), node, 1, true) then return end
  freeing()
  set(id, lives[id] .. (string.sub(lives[id], -1) == ' ' and '' or ',') .. node)
end

-- False where there is none.
local function recordOf(id)
  if not isOpen(id) then return lives[id] or false end
  local done, logs, started = progressOf(id)
  local meta, created = string.match(lives[id], '^~ (%S+ %S+ %S+ %S+) %S* (%S+)')
  return table.concat({ id, meta, created, done, started, '', '', '', #logs }, ' ') .. '\\n' .. logs
end

-- The record, or how many bytes it has where one answer would take too many: that is read with the time that it needs, by itself.
local room = ${LARGE_VALUE_BYTES}
local function recordOrSizeOf(id)
  local record = recordOf(id)
  if not record then return false end
  if #record > room then return #record end
  room = room - #record
  return record
end

-- How long keys about one with this time limit may be needed, and a margin.
local function lifetimeOf(limit) return textOf(limit + retainMs + ${MARGIN_MS}) end
`;
