/** Groups of Redis servers on loopback: a master and a replica with a Sentinel, and a Cluster. */
import { Redis } from "ioredis";
import { matchIn } from "./child-output.ts";
import { freePort } from "./free-port.ts";
import { spawnRedis, startRedis, type TestRedis } from "./redis.ts";
import { until } from "./running.ts";
import { type TempDir, tempDir } from "./temp-dir.ts";

export interface TestSentinel extends AsyncDisposable {
  readonly url: string;
  readonly master: TestRedis;
}

export async function startSentinel(): Promise<TestSentinel> {
  const [masterPort, port] = [freePort(), freePort()];
  await using stack = new AsyncDisposableStack();
  const listen = (at: number) => ["--bind", "127.0.0.1", "--port", String(at), "--repl-diskless-sync-delay", "0"];
  const master = stack.use(await startRedis(...listen(masterPort)));
  const replica = stack.use(await startRedis(...listen(freePort()), "--replicaof", "127.0.0.1", String(masterPort)));
  await until(async () => (await replica.client.info("replication")).includes("master_link_status:up"));
  const dir = stack.use(await tempDir());
  const config = [
    `bind 127.0.0.1\nport ${port}\ndir ${dir.path}`,
    `sentinel monitor main 127.0.0.1 ${masterPort} 1`,
    "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 2000",
  ];
  await Bun.write(dir.join("sentinel.conf"), config.join("\n"));
  const child = spawnRedis([dir.join("sentinel.conf"), "--sentinel"]);
  stack.defer(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  await matchIn(child.stdout, /\+slave/);
  const sentinel = new Redis({ port, protocol: 2 });
  // Makes failover faster: Sentinel reads INFO more often. "ping-period" keeps its default, because Sentinel promotes
  // only a replica whose INFO is younger than five such periods, and reads INFO only once a second while the master
  // is down.
  await sentinel.call("sentinel", "debug", "info-period", 100);
  sentinel.disconnect();
  const owned = stack.move();
  return {
    url: `redis-sentinel://127.0.0.1:${port}/main`,
    master,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * A Sentinel, and a master without a replica. They accept only TLS with the certificates of `makeCertificates`; the
 * Sentinel requires a password.
 */
export async function startGuardedSentinel(
  certificates: TempDir,
  password: string,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const [masterPort, port] = [freePort(), freePort()];
  await using stack = new AsyncDisposableStack();
  const files = { "tls-cert-file": "server.pem", "tls-key-file": "server.key", "tls-ca-cert-file": "ca.pem" };
  const settings = Object.entries(files).map(([name, file]) => [name, certificates.join(file)] as const);
  const asFlags = settings.flatMap(([name, path]) => [`--${name}`, path]);
  stack.use(await startRedis("--bind", "127.0.0.1", "--tls-port", String(masterPort), ...asFlags));
  const dir = stack.use(await tempDir());
  const config = [
    `bind 127.0.0.1\nport 0\ntls-port ${port}\ntls-replication yes\nrequirepass ${password}\ndir ${dir.path}`,
    ...settings.map((setting) => setting.join(" ")),
    `sentinel monitor main 127.0.0.1 ${masterPort} 1`,
  ];
  await Bun.write(dir.join("sentinel.conf"), config.join("\n"));
  const child = spawnRedis([dir.join("sentinel.conf"), "--sentinel"]);
  stack.defer(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  await matchIn(child.stdout, /\+monitor/);
  const owned = stack.move();
  return {
    url: `rediss-sentinel://127.0.0.1:${port}/main`,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export interface TestCluster extends AsyncDisposable {
  readonly url: string;
  readonly nodes: readonly TestRedis[];
}

const SLOTS = 16_384;

export async function startCluster(): Promise<TestCluster> {
  const places = [1, 2, 3].map(() => ({ port: freePort(), bus: freePort() }));
  await using stack = new AsyncDisposableStack();
  const starts = places.map(({ port, bus }) =>
    startRedis("--bind", "127.0.0.1", "--port", `${port}`, "--cluster-enabled", "yes", "--cluster-port", `${bus}`),
  );
  const nodes = (await Promise.all(starts)).map((node) => stack.use(node));
  for (const [i, { client }] of nodes.entries()) {
    await client.call("cluster", "addslotsrange", slotOf(i), slotOf(i + 1) - 1);
    await client.call("cluster", "set-config-epoch", i + 1);
    for (const { port, bus } of places.slice(0, i)) await client.call("cluster", "meet", "127.0.0.1", port, bus);
  }
  const isWhole = (info: unknown) => /cluster_state:ok/.test(`${info}`) && /cluster_known_nodes:3/.test(`${info}`);
  for (const { client } of nodes) await until(async () => isWhole(await client.cluster("INFO")));
  const owned = stack.move();
  return {
    url: `redis-cluster://${places.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    nodes,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function slotOf(node: number): number {
  return Math.floor((node * SLOTS) / 3);
}
