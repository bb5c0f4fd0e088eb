/** Kills the engine process many times, and looks for leaks afterwards. */
import { children } from "../../helpers/running.ts";
import { comesTrue, until } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";
import { holdingsOf, namesIn } from "../system.ts";
import { TestedServer } from "../tested-server.ts";
import { predict } from "../traffic.ts";

/** Number of parallel servers: most of the time passes between the death of a process and the next start. */
const SERVERS = 4;

export const leaks: Fault = {
  name: "leaks",
  title: "a death of the engine process leaves no process, file, socket, shared memory or descriptor behind",
  async inject(injection) {
    if (!injection.isLong) return dieOften(injection, 3);
    await Promise.all(Array.from({ length: SERVERS }, () => dieOften(injection, 100 / SERVERS)));
  },
};

async function dieOften({ tally, home }: Injection, deaths: number): Promise<void> {
  const shared = sharedMemory();
  await using server = await TestedServer.start({ home });
  // The first death opens resources that then stay open. Only later deaths are compared.
  await dieOnce(server);
  const before = await settled(server, undefined);
  for (let i = 0; i < deaths; i++) await tally.inject(() => dieOnce(server));
  const after = await settled(server, before);
  const grown = (what: string, was: readonly string[], is: readonly string[]) => {
    for (const name of added(was, is)) tally.found("leaked", `${what} ${name}, after ${deaths} deaths`);
  };
  grown("descriptor", before.descriptors, after.descriptors);
  grown("file", before.files, after.files);
  grown("shared memory", shared, sharedMemory());
  grown("process", before.processes, after.processes);
  if (after.maps > before.maps)
    tally.found("leaked", `${after.maps - before.maps} memory maps, after ${deaths} deaths`);
  const megabytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0);
  tally.note(
    `${deaths} deaths: ${before.descriptors.length} descriptors before and ${after.descriptors.length} after, ${before.maps} and ${after.maps} maps, ${megabytes(before.residentBytes)} and ${megabytes(after.residentBytes)} MiB resident`,
  );
}

async function dieOnce(server: TestedServer): Promise<void> {
  const engine = await server.child("engine");
  const waiting = predict(server.url, [{ x: 1, sleepMs: 50 }, { x: 2 }]);
  process.kill(engine, "SIGKILL");
  const { outputs } = await waiting;
  if (outputs?.[1]?.y !== 6) throw new Error(`a prediction beside a death ended with ${JSON.stringify(outputs)}`);
  await until(async () => (await server.readiness()) === 200, `readiness to come back\n${server.lastLines}`);
}

interface Held {
  readonly descriptors: readonly string[];
  readonly maps: number;
  readonly residentBytes: number;
  readonly files: readonly string[];
  readonly processes: readonly string[];
}

/** The resources of the supervisor, once there are no more descriptors and maps than `before`, or after 20 s. */
async function settled(server: TestedServer, before: Held | undefined): Promise<Held> {
  let held = heldBy(server);
  const isSettled = () => {
    held = heldBy(server);
    const most = before ?? held;
    return held.descriptors.length <= most.descriptors.length && held.maps <= most.maps;
  };
  await comesTrue(isSettled, 20_000);
  return held;
}

function heldBy(server: TestedServer): Held {
  const { descriptors, maps, residentBytes } = holdingsOf(server.pid);
  const run = namesIn(server.folder.path).find((name) => name.startsWith("sconce-run-")) ?? "";
  const files = [...namesIn(server.folder.path), ...namesIn(server.folder.join(run))];
  return {
    // Names without the numbers of sockets and pipes, which differ each time.
    descriptors: descriptors.map((name) => name.replace(/\[\d+\]$/, "")),
    maps,
    residentBytes,
    // Names without the numbers of engine sockets, which differ for each engine process.
    files: files.map((name) => name.replace(/^engine(?:-\d+)+/, "engine")),
    processes: children(server.pid).map(() => "of the server"),
  };
}

/** Names that occur more often than before. */
function added(before: readonly string[], after: readonly string[]): string[] {
  const left = [...before];
  return after.filter((name) => {
    const at = left.indexOf(name);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

/** Files of sconce in `/dev/shm`, where other programs have files, too. */
function sharedMemory(): string[] {
  return namesIn("/dev/shm").filter((name) => name.includes("sconce"));
}
