/**
 * Prints, as JSON, the time slices in nanoseconds of the threads of this process before and after `shortenSlices`, and
 * those of a child process. A thread that starts in between is included. `nice` and `policies` are of all threads.
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
