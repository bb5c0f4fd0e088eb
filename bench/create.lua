-- wrk script: creates predictions with the lines of $BENCH_BODIES and reads each with GET until it is done, $BENCH_POLL_MS after it was
-- created or read last. Prints what came of it as load.lua does, counted in predictions; its latencies are those of single requests.
local creations, i = {}, 0
local readHead, readRest
local unread, first, last = {}, 1, 0
local threads = {}
local reading
local pollMs = tonumber(os.getenv("BENCH_POLL_MS"))
succeeded, failed = 0, 0

function setup(thread)
  threads[#threads + 1] = thread
end

function init(args)
  for line in io.lines(os.getenv("BENCH_BODIES")) do
    creations[#creations + 1] = wrk.format("POST", nil, { ["Content-Type"] = "application/json" }, line)
  end
  -- Put together once: formatting each would take wrk longer than some servers take to answer.
  readHead, readRest = wrk.format("GET", wrk.path .. "/{id}", { ["Prefer"] = "wait" }):match("^(.*){id}(.*)$")
end

function request()
  if first > last then
    i = i % #creations + 1
    return creations[i]
  end
  reading, unread[first] = unread[first], nil
  first = first + 1
  return readHead .. reading .. readRest
end

if pollMs > 0 then
  function delay()
    return first > last and 0 or pollMs
  end
end

-- It is not said to which request this is the answer: where an answer has no id, the thread must have one connection only.
function response(status, headers, body)
  if status < 200 or status > 299 then return end
  if body:find('"status":"success"', 1, true) then
    succeeded = succeeded + 1
  elseif body:find('"status":"failed"', 1, true) then
    failed = failed + 1
  else
    last = last + 1
    unread[last] = body:match('"prediction_id":"([^"]+)"') or reading
  end
end

function done(summary, latency, _)
  local errors = summary.errors
  local answered, wrong = 0, 0
  for _, thread in ipairs(threads) do
    answered = answered + thread:get("succeeded")
    wrong = wrong + thread:get("failed")
  end
  io.write(string.format(
    '{"answered":%d,"seconds":%.6f,"failed":%d,"p50Ms":%.3f,"p99Ms":%.3f,"arrivals":[]}\n',
    answered, summary.duration / 1e6,
    wrong + errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
