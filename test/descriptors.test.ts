/**
 * A server with few file descriptors: it refuses connections before it runs out of descriptors, and does not use a
 * core to retry.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { clientOf, follow, program } from "./helpers/cli.ts";
import { machineEnv } from "./helpers/machine.ts";
import { inRole } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

/** Seconds of processor time that a process has used, from Linux's /proc. */
function cpuSeconds(pid: number): number {
  const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  const [user = 0, system = 0] = fields.split(" ").slice(11, 13).map(Number);
  return (user + system) / 100;
}

test("connections beyond the descriptor limit are refused without spinning, and accepted again once others have ended", async () => {
  await using store = await storeWith("lab");
  const serve = `ulimit -n 100; exec ${program.command.join(" ")} serve lab --host 127.0.0.1 -p 0`;
  await using server = follow(
    Bun.spawn(["sh", "-c", serve], {
      // One HTTP process, so that each message appears once in the log.
      env: { ...process.env, ...program.env, ...machineEnv, SCONCE_HOME: store.home, SCONCE_FRONTS: "1" },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    }),
  );
  const client = await clientOf(server);
  const { url } = client;
  const sockets: Socket[] = [];
  // Opens a connection with a request that gets no answer, so the server does not close it as idle.
  const open = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect({ host: url.hostname, port: Number(url.port) });
      sockets.push(socket);
      socket.on("connect", () => {
        socket.write(
          "POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n[",
        );
        resolve(true);
      });
      socket.on("error", () => resolve(false));
    });
  while ((await Promise.all([open(), open(), open(), open()])).every((isOpen) => isOpen)) await Bun.sleep(10);
  const [front = 0] = await inRole(server.pid, "front");
  const before = cpuSeconds(front);
  // A loop that retries `accept` would use much more processor time in 0.8 seconds.
  await Bun.sleep(800);
  expect(cpuSeconds(front) - before).toBeLessThan(0.15);
  expect(server.lines.filter((line) => line.includes("too many connections")).length).toBe(1);
  for (const socket of sockets) socket.destroy();
  await client.ready();
});
