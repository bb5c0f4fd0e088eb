-- wrk script: posts the lines of $BENCH_BODIES in turn, and prints the results as one line of JSON. With $BENCH_REQUESTS "create-get", each
-- POST creates a prediction, and a GET waits for its end. With $BENCH_THINKING_MS, a client pauses between an answer and its next request.
-- With $BENCH_ARRIVALS, the results have the time of every answer in milliseconds. That costs time in wrk, so only slow servers use it.
local isTwo = os.getenv("BENCH_REQUESTS") == "create-get"
local requests, created, i = {}, {}, 0
local threads = {}
arrivals = {}

function setup(thread)
  threads[#threads + 1] = thread
end

-- With $BENCH_BINARY, posts whole files in turn instead: "PREFIX COUNT LENGTH" for the files PREFIX0.bin, PREFIX1.bin, …, requests of the API
-- v2 whose JSON part has LENGTH bytes.
local prefix, count, head = (os.getenv("BENCH_BINARY") or ""):match("^(%S+) (%d+) (%d+)$")

function init()
  for number = 0, (count or 0) - 1 do
    local file = assert(io.open(prefix .. number .. ".bin", "rb"))
    local headers = { ["Content-Type"] = "application/octet-stream", ["Inference-Header-Content-Length"] = head }
    requests[#requests + 1] = wrk.format("POST", nil, headers, file:read("*a"))
    file:close()
  end
  if prefix then return end
  local headers = { ["Content-Type"] = "application/json", ["Prefer"] = not isTwo and "wait" or nil }
  for line in io.lines(os.getenv("BENCH_BODIES")) do
    requests[#requests + 1] = wrk.format("POST", nil, headers, line)
  end
end

function request()
  local location = table.remove(created)
  if location then return "GET " .. location .. " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\nPrefer: wait\r\n\r\n" end
  i = i % #requests + 1
  return requests[i]
end

local thinkingMs = tonumber(os.getenv("BENCH_THINKING_MS"))
if thinkingMs then
  function delay() return thinkingMs end
end

if isTwo then
  function response(_, headers)
    created[#created + 1] = headers.Location
  end
elseif os.getenv("BENCH_ARRIVALS") then
  local ffi = require("ffi")
  ffi.cdef("typedef struct { long seconds; long nanoseconds; } moment; int clock_gettime(int, moment *);")
  local REALTIME = 0 -- The one clock that has the same number on Linux and macOS.
  local now = ffi.new("moment")

  function response(status)
    if status > 299 then return end
    ffi.C.clock_gettime(REALTIME, now)
    arrivals[#arrivals + 1] = string.format("%.3f", tonumber(now.seconds) * 1000 + tonumber(now.nanoseconds) / 1e6)
  end
end

function done(summary, latency)
  local errors = summary.errors
  local all = {}
  for _, thread in ipairs(threads) do
    for _, arrival in ipairs(thread:get("arrivals")) do all[#all + 1] = arrival end
  end
  io.write(string.format(
    '{"answered":%d,"seconds":%.6f,"failed":%d,"p50Ms":%.3f,"p99Ms":%.3f,"arrivals":[%s]}\n',
    (summary.requests - errors.status) / (isTwo and 2 or 1), summary.duration / 1e6,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, table.concat(all, ",")))
end
