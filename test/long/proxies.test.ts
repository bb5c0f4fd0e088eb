/** The proxies of `deploy/` before a server with API keys: nginx, Caddy, and the load balancer of Compose. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";
import { makeKey } from "../../src/cli/commands/key.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { Client } from "../helpers/client.ts";
import { debianTool } from "../helpers/debian-tools.ts";
import { eventsOf } from "../helpers/events.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { freePort } from "../helpers/free-port.ts";
import { hold } from "../helpers/hold.ts";
import { storeWith } from "../helpers/server.ts";

const folder = resolve(import.meta.dir, "../../deploy");
const read = (path: string) => readFile(join(folder, path), "utf8");
const { secret, entry } = makeKey({ name: "client" });
const bearer = { Authorization: `Bearer ${secret}` };

let ca: string;

const store = fixture(() => storeWith("lab"));
const dir = fixture(tempDir);
beforeAll(async () => {
  await Bun.write(dir.join("keys.toml"), entry);
});
const server = fixture(() =>
  store.serve("lab", {
    apiKeys: dir.join("keys.toml"),
    allowedHosts: ["models.example.com"],
    adminPort: { host: "127.0.0.1", port: 0 },
    allowPrivateUrls: true,
  }),
);
beforeAll(async () => {
  ({ ca } = await makeCertificates(dir));
});

interface Proxy {
  readonly tool: "nginx" | "caddy" | "haproxy";
  /**
   * Writes the proxy's configuration with other ports. @returns the arguments that check it, and the arguments that
   * run the proxy
   */
  configure(port: number, to: string): Promise<{ check: readonly string[]; run: readonly string[] }>;
  readonly scheme: "http" | "https";
}

const nginx: Proxy = {
  tool: "nginx",
  scheme: "https",
  async configure(port, to) {
    const site = (await read("proxies/nginx.conf"))
      .replace("127.0.0.1:3000", to)
      .replace("listen 443", `listen 127.0.0.1:${port}`)
      .replace("/etc/nginx/models.example.com.pem", dir.join("server.pem"))
      .replace("/etc/nginx/models.example.com.key", dir.join("server.key"))
      .replace("/var/log/nginx/sconce.log", dir.join("nginx.log"));
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${name};`);
    const config = `daemon off; master_process off; pid nginx.pid;\nevents {}\nhttp {\n${temporary.join(" ")}\n${site}\n}`;
    await Bun.write(dir.join("nginx.conf"), config);
    const run = ["-p", dir.path, "-c", "nginx.conf", "-e", "stderr"];
    return { check: [...run, "-t"], run };
  },
};

const caddy: Proxy = {
  tool: "caddy",
  scheme: "http",
  async configure(port, to) {
    const site = await read("proxies/Caddyfile");
    const local = site.replace("127.0.0.1:3000", to).replace("models.example.com {", `http://127.0.0.1:${port} {`);
    await Bun.write(dir.join("Caddyfile"), `{\n\tadmin off\n}\n${local}`);
    const check = ["validate", "--adapter", "caddyfile", "--config", join(folder, "proxies/Caddyfile")];
    return { check, run: ["run", "--adapter", "caddyfile", "--config", dir.join("Caddyfile")] };
  },
};

const haproxy: Proxy = {
  tool: "haproxy",
  scheme: "http",
  async configure(port, to) {
    const schema = z.looseObject({ configs: z.looseObject({ balancer: z.looseObject({ content: z.string() }) }) });
    const { configs } = schema.parse(Bun.YAML.parse(await read("compose.yaml")));
    const config = configs.balancer.content
      .replace("bind :3000", `bind 127.0.0.1:${port}`)
      .replace(/server-template .*/, `server front ${to} check inter 1s`);
    await Bun.write(dir.join("haproxy.cfg"), config);
    return { check: ["-c", "-f", dir.join("haproxy.cfg")], run: ["-db", "-f", dir.join("haproxy.cfg")] };
  },
};

for (const { tool, scheme, configure } of [nginx, caddy, haproxy]) {
  const found = debianTool(tool);

  describe.skipIf(found === undefined)(`behind ${tool}${found === undefined ? " (npm test fetches it)" : ""}`, () => {
    let child: Bun.Subprocess<"ignore", "pipe", "pipe">;
    let client: Client;
    let logged: Promise<readonly [string, string]>;

    beforeAll(async () => {
      const port = freePort();
      const { check, run } = await configure(port, server.url.host);
      await mkdir(dir.join("data"), { recursive: true });
      const { command = "", env: own } = found ?? {};
      const env = {
        ...process.env,
        ...own,
        HOME: dir.path,
        XDG_DATA_HOME: dir.join("data"),
        XDG_CONFIG_HOME: dir.join("data"),
      };
      const pipes = { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" } as const;
      const checked = Bun.spawn([command, ...check], pipes);
      const output = await checked.stderr.text();
      expect([await checked.exited, output]).toEqual([0, expect.not.stringMatching(/warn|alert|emerg/i)]);
      child = Bun.spawn([command, ...run], pipes);
      logged = Promise.all([child.stdout.text(), child.stderr.text()]);
      client = new ProxyClient(new URL(`${scheme}://127.0.0.1:${port}`));
      await client.ready();
    });

    afterAll(async () => {
      child.kill("SIGKILL");
      await child.exited;
    });

    test("a prediction starts with a key, and nobody without a key can read anything", async () => {
      expect(await client.predict([{ x: 1 }], bearer)).toMatchObject({ status: "success" });
      expect((await client.fetch("/", { headers: { "X-API-Key": secret } })).status).toBe(200);
      expect(await client.status("/")).toBe(401);
      expect((await client.post([{ x: 1 }])).status).toBe(401);
      expect((await client.fetch("/metrics", { headers: bearer })).status).toBe(404);
    });

    test("each event arrives when it is sent", async () => {
      await using gate = hold();
      const headers = { ...bearer, Accept: "text/event-stream" };
      const response = await client.post([{ x: 1, before: gate.url("a") }, { x: 2 }], headers);
      const names: string[] = [];
      for await (const { event } of eventsOf(response)) {
        names.push(event);
        // The second input waits for the gate, so this output was sent before the end.
        if (event === "output") gate.release("a");
      }
      expect(names.filter((name) => name === "output").length).toBe(2);
      expect(names.at(-1)).toBe("completed");
    });

    test("a body above the limit gets 413", async () => {
      const body = "x".repeat(65 * 2 ** 20);
      expect((await client.post(body, bearer)).status).toBe(413);
    });

    test("the log has no key", async () => {
      await client.fetch("/", { headers: { ...bearer, "X-API-Key": secret } });
      child.kill("SIGTERM");
      await child.exited;
      const file = Bun.file(dir.join("nginx.log"));
      const log = [...(await logged), tool === "nginx" ? await file.text() : ""].join("\n");
      if (tool !== "haproxy") expect(log).toContain("/predictions");
      expect(log).not.toContain(secret);
    });
  });
}

/** A client that trusts the certificate authority of the test. */
class ProxyClient extends Client {
  override fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return super.fetch(path, { ...init, tls: { ca } } as RequestInit);
  }
}
