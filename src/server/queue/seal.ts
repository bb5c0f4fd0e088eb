/** Seals are checksums of lines that scripts write: the first characters of SHA-1, because Lua in Redis has no other checksum. */
import { createHash } from "node:crypto";

const LENGTH = 8;

export function sealOf(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha1");
  for (const part of parts) hash.update(part);
  return hash.digest("hex").slice(0, LENGTH);
}

/** Lua functions that create and check seals. */
export const seals = `
local function sealOf(text) return string.sub(redis.sha1hex(text), 1, ${LENGTH}) end

-- The text of an unfinished prediction.
local function openText(id, facts) return '~ ' .. sealOf(id .. ' ' .. facts) .. ' ' .. facts end

-- Whether a text has the form that the scripts write. Readers check the seals of ended predictions.
local function isWritten(id, text)
  if string.byte(text) == 126 then
    local facts = string.match(text, '^~ %x+ (%l+ %d+ %d+ [%d.]+ %S* %d+ %d+ %d+%-%d+ .*)$')
    return facts ~= nil and text == openText(id, facts)
  end
  local own, members = string.match(text, '^(%S+) %l+ %d+ %d+ [%d.]+ %d+ %d+ %d* %d+ %l+ %S* (%d+) %S* %S* %S* %x+\\n')
  return own == id and members ~= nil
end

-- Deliveries before the entry with this head, and the head up to them; nil if the disk changed the head.
local function deliveriesOf(head)
  local line, seal = string.match(head, '^(.*) (%x+)$')
  if not line or seal ~= sealOf(line) then return nil end
  local before, count = string.match(line, '^(.* )(%d+)$')
  return count, before
end

local function sealedHead(before, deliveries)
  local line = before .. deliveries
  return line .. ' ' .. sealOf(line)
end

local function progressSeal(id, done, logs, started) return sealOf(id .. ' ' .. done .. ' ' .. started .. ' ' .. logs) end

-- Items done, logs and start time that the worker has reported, and whether they are as it reported them.
local function readProgress(id)
  local done, logs, started, seal = unpack(redis.call('HMGET', base .. 't:' .. id, 'done', 'logs', 'started', 'seal'))
  local isKnown = done or logs or started or seal
  done, logs, started = done or '0', logs or '', started or ''
  return done, logs, started, not isKnown or seal == progressSeal(id, done, logs, started)
end

local function progressOf(id)
  local done, logs, started, isIntact = readProgress(id)
  if not isIntact then error('FOREIGN ' .. id .. ' ') end
  return done, logs, started
end

local function cancelMark(id) return sealOf('cancelled ' .. id) end
local function isCancelled(id) return redis.call('HGET', base .. 't:' .. id, 'cancelled') == cancelMark(id) end
`;
