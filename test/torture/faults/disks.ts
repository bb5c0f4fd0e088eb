/** The disk of the prediction store is full, its folder is read-only, or its files are damaged or deleted. */
import { closeSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { tempDir } from "../../helpers/temp-dir.ts";
import { canMount, tmpfs } from "../../helpers/tmpfs.ts";
import { until, within } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { create, predict, statusOf, Traffic } from "../traffic.ts";

const problemSchema = z.object({ type: z.string(), detail: z.string() });

export const disks: Fault = {
  name: "disks",
  title: "a full disk, a read-only folder, a damaged and a deleted file are reported, and no other prediction is lost",
  lacking: canMount ? undefined : "this user may not mount a file system",
  async inject(injection) {
    await fillDisk(injection);
    await readOnly(injection);
    await damageFiles(injection);
  },
};

async function fillDisk({ tally, home, random, isLong }: Injection): Promise<void> {
  await using dir = await tempDir();
  using disk = tmpfs(dir.join("disk"), "64m");
  await using server = await TestedServer.start({ home, store: join(disk.path, "predictions.sqlite") });
  const traffic = new Traffic({ url: server.url, tally, random, lastLines: () => server.lastLines });
  const filler = join(disk.path, "filler");
  for (let round = 0; round < (isLong ? 5 : 1); round++) {
    await traffic.run(60);
    const early = await create(server.url, [{ x: 2 }]);
    await until(async () => (await statusOf(server.url, early)) === "success", `the end of ${early}`);
    fill(filler);
    const before = server.lines.length;
    await tally.inject(async () => {
      const told = await refusal(server, tally);
      if (!/no room/.test(told)) tally.problem(`a full disk is told with: ${told}`);
      // This client waits for the outputs, so the server can answer without the disk.
      const { outputs } = await predict(server.url, [{ x: 5 }]);
      if (outputs?.[0]?.y !== 15) tally.found("wrong", `on a full disk: ${JSON.stringify(outputs)}`);
      // Log lines about refused requests and a blocked event loop do not count.
      const isOther = (line: string) => line.includes(" was refused with ") || line.includes(" held the server for ");
      const lines = server.lines.slice(before).filter((line) => line !== "" && !isOther(line));
      // A clean-up of the store may make space for a moment, so lines that name the fault alternate with lines that
      // name its end.
      if (lines.length === 0 || lines.some((line, i) => line.includes("cannot be written") !== (i % 2 === 0)))
        tally.problem(`a full disk takes ${lines.length} lines to tell:\n${lines.slice(0, 5).join("\n")}`);
      if (round % 2 === 0) {
        await server.kill();
        await server.started();
        const status = await statusOf(server.url, early);
        if (status !== "success") tally.found("lost", `${early} after a start on a full disk is ${status}`);
      }
      rmSync(filler);
      await until(
        async () => (await post(server.url, "")).status === 200,
        `predictions to be taken again\n${server.lastLines}`,
      );
    });
  }
  if (isLong) {
    await server.kill();
    await server.started();
  }
  await traffic.verify();
}

/** Sends predictions until one is refused. @returns the reason in the answer */
async function refusal(server: TestedServer, tally: Injection["tally"]): Promise<string> {
  // Large predictions, because pages that the database has reserved must be filled first.
  const note = "n".repeat(50_000);
  for (let i = 0; i < 200; i++) {
    const response = await post(server.url, note);
    const text = await response.text();
    if (response.status === 200) continue;
    const { type, detail } = problemSchema.parse(JSON.parse(text));
    if (response.status !== 503 || type !== "urn:sconce:problem:predictions_unwritable") {
      tally.found("wrong", `a full disk is answered with ${response.status}: ${text}`);
    }
    return detail;
  }
  throw new Error("a full disk refuses nothing");
}

function post(url: URL, note: string): Promise<Response> {
  return fetch(new URL("/predictions", url), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify([{ x: 1, note }]),
    signal: AbortSignal.timeout(60_000),
  });
}

/** Fills a disk to its last byte. */
function fill(path: string): void {
  const file = openSync(path, "w");
  for (let bytes = 65536; bytes >= 1; ) {
    try {
      if (writeSync(file, Buffer.alloc(bytes)) === bytes) continue;
    } catch {
      // The disk lacks space for this number of bytes, but perhaps not for half of it.
    }
    bytes >>= 1;
  }
  // A file that is open keeps its disk space after `rm`.
  closeSync(file);
}

async function readOnly({ tally, home }: Injection): Promise<void> {
  await using dir = await tempDir();
  using disk = tmpfs(dir.join("disk"), "64m");
  disk.setReadOnly(true);
  await tally.inject(async () => {
    const told = await refusedStart({ home, store: join(disk.path, "predictions.sqlite") });
    if (!told.includes("read-only")) tally.problem(`a read-only folder is told with: ${told}`);
  });
}

/** Injects two faults of the files, one after another, into one server. */
async function damageFiles(injection: Injection): Promise<void> {
  await using server = await TestedServer.start({ home: injection.home });
  await damage(server, injection);
  await deleteDatabase(server, injection);
}

async function damage(server: TestedServer, { tally, random, isLong }: Injection): Promise<void> {
  const traffic = new Traffic({ url: server.url, tally, random, lastLines: () => server.lastLines });
  await traffic.run(isLong ? 500 : 60);
  server.signal("SIGTERM");
  await within(server.exited, `the end after SIGTERM\n${server.lastLines}`);
  const path = server.storePath;
  const good = await Bun.file(path).bytes();
  await tally.inject(async () => {
    const file = await open(path, "r+");
    const noise = crypto.getRandomValues(new Uint8Array(4096));
    // The first page stays as it is, since it identifies the file as a database.
    for (let at = 4096; at < statSync(path).size; at += 8192) await file.write(noise, 0, noise.length, at);
    await file.close();
    await server.started();
    await server.line("begins anew");
    const told = server.lines.filter((line) => line.includes("begins anew"));
    if (told.length !== 1 || told[0]?.includes(path) !== true)
      tally.problem(`a damaged store is not reported in one line:\n${server.lastLines}`);
    const { outputs } = await predict(server.url, [{ x: 5 }]);
    if (outputs?.[0]?.y !== 15) tally.found("wrong", `after a damaged store: ${JSON.stringify(outputs)}`);
    tally.note(`a damaged store: ${told[0]}`);
  });
  server.signal("SIGTERM");
  await within(server.exited, `the end after SIGTERM\n${server.lastLines}`);
  // An undamaged copy of the file, as from a backup.
  await Bun.write(path, good);
  await server.started();
  await traffic.verify();
}

/**
 * Deletes the database of a running server. The server must become not ready and refuse predictions until it is
 * started again.
 */
async function deleteDatabase(server: TestedServer, { tally }: Injection): Promise<void> {
  await predict(server.url, [{ x: 1 }]);
  await tally.inject(async () => {
    rmSync(server.storePath);
    await until(
      async () => (await server.readiness()) === 503,
      `a server without its database to be not ready\n${server.lastLines}`,
    );
    const { status } = await post(server.url, "");
    if (status !== 503) tally.found("wrong", `a server without its database answers ${status}`);
    await server.kill();
    await server.started();
    const { outputs } = await predict(server.url, [{ x: 5 }]);
    if (outputs?.[0]?.y !== 15) tally.found("wrong", `with a new database: ${JSON.stringify(outputs)}`);
  });
}

/** Starts a server, which must fail. @returns the last line of its error */
async function refusedStart(options: Parameters<typeof TestedServer.start>[0]): Promise<string> {
  try {
    await using _server = await TestedServer.start(options);
  } catch (error) {
    return String(error).split("\n").at(-1) ?? "";
  }
  throw new Error("the server starts on what it cannot write");
}
