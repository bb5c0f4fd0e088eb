/**
 * Calls `shortenSlices`, then starts a thread and a child process. Prints JSON with the time slices, in nanoseconds, of
 * the threads of this process (`before` and `after` the call) and of the child process. `nice` and `policies` have the
 * values of the threads of this process after the call.
 */
import { getPriority } from "node:os";
import { shortenSlices, threadsOf } from "../../src/machine/processes/scheduling.ts";
import { policies, slices } from "./running.ts";

const once = (values: readonly number[]) => [...new Set(values)];

const before = once(slices(process.pid));
shortenSlices();
const thread = new Worker("data:text/javascript,postMessage(0);setTimeout(() => {}, 60000);");
await new Promise((started) => thread.addEventListener("message", started));
const child = Bun.spawn(["sleep", "60"]);
const after = once(slices(process.pid));
const ofChild = once(slices(child.pid));
child.kill();
const nice = once(threadsOf(process.pid).map(getPriority));
console.log(JSON.stringify({ before, after, ofChild, nice, policies: once(policies(process.pid)) }));
process.exit();
