/**
 * Prints, as JSON, the scheduling policies of all threads of this process and its child: before and in the background
 * (SCHED_IDLE), after only this process has left it, and after both have.
 * `started` has the policies of a process that `Background.start` starts. With the argument "bounded", programs that
 * this process starts do not get the capability CAP_SYS_NICE. With "starved", a busy thread takes the core until the
 * threads leave the background.
 */
import { dlopen, FFIType } from "bun:ffi";
import { Background } from "../../src/machine/processes/background.ts";
import { children, policies, until } from "./running.ts";

const all = async () => {
  const pids = [process.pid, ...(await children(process.pid))];
  return [...new Set(pids.flatMap(policies))];
};

const before = await all();
if (process.argv[2] === "bounded") {
  const [PR_CAPBSET_DROP, CAP_SYS_NICE] = [24, 23];
  dlopen("libc.so.6", { prctl: { args: [FFIType.int, FFIType.u64], returns: FFIType.int } }).symbols.prctl(
    PR_CAPBSET_DROP,
    CAP_SYS_NICE,
  );
}
const other = Background.start(() => Bun.spawn(["sleep", "60"]));
const started = policies(other.pid);
other.kill();
await other.exited;
const background = Background.enter();
const child = Bun.spawn(["sleep", "60"]);
const inside = await all();
Background.leaveAlone();
const alone = [...new Set(policies(process.pid))];
background?.leave();
const after = await all();
if (process.argv[2] === "starved") {
  Background.enter();
  // A thread that always wants the core.
  const spinning = new Worker("data:text/javascript,while(true);");
  await until(async () => String(await all()) === "0");
  spinning.terminate();
}
child.kill();
console.log(JSON.stringify({ entered: background !== undefined, started, before, inside, alone, after }));
