/** Enters the background with a child process and a thread, and leaves it: first this process alone, then both. Prints the scheduling policies of all threads as JSON. */
import { Background } from "../../src/machine/processes/background.ts";
import { children, policies, until } from "./running.ts";

const all = async () => {
  const pids = [process.pid, ...(await children(process.pid))];
  return [...new Set(pids.flatMap(policies))];
};

const before = await all();
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
console.log(JSON.stringify({ entered: background !== undefined, before, inside, alone, after }));
