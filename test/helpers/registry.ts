/** A registry on a free loopback port: Debian's docker-registry, the reference implementation. */
import { matchIn } from "./child-output.ts";
import { debianTool } from "./debian-tools.ts";
import { fixture, tempDir } from "./fixture.ts";

/** Whether the registry is installed. Without it, tests with a registry are skipped. */
export const hasRegistry = debianTool("docker-registry") !== undefined;

export interface TestRegistry extends AsyncDisposable {
  /** `127.0.0.1:PORT`, as references name the registry. */
  readonly host: string;
  readonly port: number;
}

/** A registry for all tests of a file. Without docker-registry its tests are skipped, and there is no registry. */
export const registryFixture = (): TestRegistry =>
  fixture(async () => (hasRegistry ? await startRegistry() : { host: "", port: 0, async [Symbol.asyncDispose]() {} }));

export interface TestRegistryOptions {
  /** Passwords by user name; undefined for a registry without users. */
  readonly users?: Readonly<Record<string, string>>;
  /** Key and certificate of a registry that accepts only TLS. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

export async function startRegistry(options: TestRegistryOptions = {}): Promise<TestRegistry> {
  const tool = debianTool("docker-registry");
  if (tool === undefined) throw new Error("docker-registry is not here; npm test fetches it");
  const dir = await tempDir();
  const { users, tls } = options;
  if (tls !== undefined)
    await Promise.all([Bun.write(dir.join("key"), tls.key), Bun.write(dir.join("cert"), tls.cert)]);
  if (users !== undefined) {
    const lines = await Promise.all(
      Object.entries(users).map(
        async ([name, password]) => `${name}:${await Bun.password.hash(password, { algorithm: "bcrypt", cost: 4 })}\n`,
      ),
    );
    await Bun.write(dir.join("htpasswd"), lines.join(""));
  }
  const config = {
    version: "0.1",
    log: { level: "info", formatter: "json" },
    storage: { filesystem: { rootdirectory: dir.join("data") } },
    http: {
      addr: "127.0.0.1:0",
      secret: "of the tests",
      ...(tls && { tls: { key: dir.join("key"), certificate: dir.join("cert") } }),
    },
    ...(users && { auth: { htpasswd: { realm: "tests", path: dir.join("htpasswd") } } }),
  };
  // The registry reads YAML, and every JSON document is YAML.
  await Bun.write(dir.join("config.yml"), JSON.stringify(config));
  const child = Bun.spawn([tool.command, "serve", dir.join("config.yml")], {
    env: { ...process.env, ...tool.env, OTEL_TRACES_EXPORTER: "none" },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const [, port] = await matchIn(child.stderr, /listening on 127\.0\.0\.1:(\d+)/);
  return {
    host: `127.0.0.1:${port}`,
    port: Number(port),
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.exited;
      await dir[Symbol.asyncDispose]();
    },
  };
}
