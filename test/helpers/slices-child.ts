/**
 * Starts two child processes, one of them with a lower priority, and calls `shortenSlicesBelow`, then `shortenSlices`.
 * Then starts a thread and another child process. Prints JSON: `before` has the time slices, in nanoseconds, of the
 * threads of this process and of both child processes at the start, `below` after the first call. `after` has the slices
 * of this process and of the last child process at the end, and `nice` and `policies` the values of this process.
 */
import { getPriority } from "node:os";
import { shortenSlices, shortenSlicesBelow, threadsOf } from "../../src/machine/processes/scheduling.ts";
import { policies, slices, until } from "./running.ts";

const once = (values: readonly number[]) => [...new Set(values)];
const slicesOf = (...pids: readonly number[]) => pids.map((pid) => once(slices(pid)));

const equal = Bun.spawn(["sleep", "60"]);
const lower = Bun.spawn(["nice", "-n", "1", "sleep", "60"]);
await until(() => getPriority(lower.pid) > getPriority());
const before = slicesOf(process.pid, equal.pid, lower.pid);
shortenSlicesBelow();
const below = slicesOf(process.pid, equal.pid, lower.pid);
shortenSlices();
const thread = new Worker("data:text/javascript,postMessage(0);setTimeout(() => {}, 60000);");
await new Promise((started) => thread.addEventListener("message", started));
const later = Bun.spawn(["sleep", "60"]);
const after = slicesOf(process.pid, later.pid);
for (const child of [equal, lower, later]) child.kill();
const nice = once(threadsOf(process.pid).map(getPriority));
console.log(JSON.stringify({ before, below, after, nice, policies: once(policies(process.pid)) }));
process.exit();
