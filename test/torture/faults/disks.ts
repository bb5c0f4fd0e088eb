/** The disk of the prediction store is full. */
import { join } from "node:path";
import { z } from "zod";
import { canMount, tmpfs } from "../../helpers/tmpfs.ts";
import { until } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { create, predict, statusOf, Traffic } from "../traffic.ts";

const problemSchema = z.object({ type: z.string(), detail: z.string() });

export const disks: Fault = {
  name: "disks",
  title: "a full disk is reported, and no other prediction is lost",
  lacking: canMount ? undefined : "this user may not mount a file system",
  inject: fillDisk,
};

async function fillDisk({ tally, home, random, isLong }: Injection): Promise<void> {
  using disk = tmpfs("64m");
  await using server = await TestedServer.start({ home, store: join(disk.path, "predictions.sqlite") });
  const traffic = new Traffic({ url: server.url, tally, random, lastLines: () => server.lastLines });
  for (let round = 0; round < (isLong ? 5 : 1); round++) {
    await traffic.run(60);
    const early = await create(server.url, [{ x: 2 }]);
    await until(async () => (await statusOf(server.url, early)) === "success", `the end of ${early}`);
    disk.fill();
    const before = server.lines.length;
    await tally.inject(async () => {
      const told = await refusal(server, tally);
      if (!/SQLITE_FULL/.test(told)) tally.problem(`a full disk is told with: ${told}`);
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
      disk.clear();
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
