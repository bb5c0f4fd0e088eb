/** Server-sent events through nginx with common settings: HTTP/1.0 to the server, buffering and compression. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { debianTool } from "../helpers/debian-tools.ts";
import { eventsOf } from "../helpers/events.ts";
import { hold } from "../helpers/hold.ts";
import { until } from "../helpers/running.ts";
import { storeWith, type TestServer, type TestStore } from "../helpers/server.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

const nginx = debianTool("nginx");

describe.skipIf(nginx === undefined)(
  `behind nginx${nginx === undefined ? " (not here: npm test fetches it)" : ""}`,
  () => {
    let dir: TempDir;
    let store: TestStore;
    let server: TestServer;
    let proxy: Bun.Subprocess;

    beforeAll(async () => {
      [dir, store] = await Promise.all([tempDir(), storeWith("lab")]);
      server = await store.serve("lab", { accessLog: false });
      const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
      const config = `
      daemon off; master_process off; pid nginx.pid;
      events {}
      http {
        access_log off; ${folders.map((name) => `${name}_temp_path ${name};`).join(" ")}
        gzip on; gzip_types *; gzip_proxied any; gzip_min_length 1;
        server { listen unix:${dir.join("nginx.sock")}; location / { proxy_pass ${server.url.origin}; } }
      }`;
      await Bun.write(dir.join("nginx.conf"), config);
      const { command = "", env } = nginx ?? {};
      const args = ["-p", dir.path, "-c", "nginx.conf", "-e", "stderr"];
      proxy = Bun.spawn([command, ...args], { env: { ...process.env, ...env }, stdout: "ignore", stderr: "inherit" });
      await until(() => existsSync(dir.join("nginx.sock")));
    });

    afterAll(async () => {
      proxy?.kill("SIGKILL");
      await proxy?.exited;
      await server?.stop();
      await store?.[Symbol.asyncDispose]();
      await dir?.[Symbol.asyncDispose]();
    });

    const fetchBehind = (path: string, init: RequestInit = {}) =>
      fetch(`http://proxy${path}`, {
        ...init,
        unix: dir.join("nginx.sock"),
        headers: { Accept: "text/event-stream", "Content-Type": "application/json", ...init.headers },
      });

    test("each event arrives when it is sent, and a client that reconnects continues after its last event", async () => {
      await using gate = hold();
      const { prediction_id: id } = await server.client.create([{ x: 1, before: gate.url("a") }, { x: 2 }]);
      const response = await fetchBehind(`/predictions/${id}/events`);
      expect(response.headers.get("content-type")).toBe("text/event-stream");
      const events = eventsOf(response);
      let lastId = "";
      for await (const { event, id: eventId } of events) {
        lastId = eventId;
        if (event === "output") break;
      }
      const again = eventsOf(await fetchBehind(`/predictions/${id}`, { headers: { "Last-Event-ID": lastId } }));
      const next = again.next();
      gate.release("a");
      expect((await next).value).toMatchObject({ event: "output", data: { index: 0, output: { y: 3 } } });
      expect((await again.next()).value).toMatchObject({ event: "completed", data: { status: "success" } });
    });

    test("a client that closes its POST cancels the prediction", async () => {
      await using gate = hold();
      const body = JSON.stringify([{ x: 1, before: gate.url("a") }]);
      let id = "";
      for await (const { data } of eventsOf(await fetchBehind("/predictions", { method: "POST", body }))) {
        ({ prediction_id: id } = data as { prediction_id: string });
        break;
      }
      expect(await server.client.end(id)).toMatchObject({ error_message: "Canceled" });
    });
  },
);
